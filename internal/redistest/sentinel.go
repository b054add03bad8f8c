package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

const masterName = "fairlimit"

// SentinelGroup is a master, its replica, and a sentinel that makes the replica
// master about a second after the master has fallen silent.
type SentinelGroup struct {
	Client   *redis.Client // finds the master through the sentinel
	Master   *Server       // what was the master at the start
	Replica  *Server       // what was its replica at the start
	Sentinel *Server
}

// Sentinel starts a group for this test alone. The replica is in sync, and the
// sentinel knows it and may promote it. All ends with the test.
func Sentinel(t testing.TB) *SentinelGroup {
	t.Helper()
	g := &SentinelGroup{}
	g.Master, g.Replica = Pair(t)

	sentinel, err := launch(func(dir string, port int) ([]string, error) {
		conf := filepath.Join(dir, "sentinel.conf") // which the sentinel writes to
		return []string{conf, "--sentinel"}, os.WriteFile(conf, fmt.Appendf(nil, `
port %[1]d
bind 127.0.0.1
dir "%[2]s"
sentinel monitor %[3]s 127.0.0.1 %[4]d 1
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 3000
`, port, dir, masterName, g.Master.port.number), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Sentinel = sentinel
	sentinel.own(t)

	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	defer func() { _ = watcher.Close() }()
	if err := eventually(func(ctx context.Context) error {
		replicas, err := watcher.Replicas(ctx, masterName).Result()
		if err != nil {
			return err
		}
		if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("redistest: the replica is not ready: %v", replicas)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	g.Client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: []string{sentinel.Addr()},
	})
	t.Cleanup(func() { Close(g.Client) })
	return g
}
