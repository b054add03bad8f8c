package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelGroup is a master, its replica, and a sentinel that makes the replica
// master about a second after the master has fallen silent.
type SentinelGroup struct {
	Client          *redis.Client // finds the master through the sentinel
	Master, Replica *Server       // what they were at the start
	Sentinel        *Server
}

// Sentinel starts a group for this test alone. The sentinel knows the replica and
// may promote it. All ends with the test.
func Sentinel(t testing.TB) *SentinelGroup {
	t.Helper()
	const name = "fairlimit"
	g := &SentinelGroup{Master: StartServer(t, "--repl-diskless-sync-delay", "0")}
	g.Replica = StartServer(t, "--replicaof", "127.0.0.1", g.Master.port())
	conf := filepath.Join(t.TempDir(), "sentinel.conf") // which the sentinel writes to
	must(os.WriteFile(conf, fmt.Appendf(nil, `
sentinel monitor %[1]s 127.0.0.1 %[2]d 1
sentinel down-after-milliseconds %[1]s 1000
sentinel failover-timeout %[1]s 3000
`, name, g.Master.number), 0o600))
	g.Sentinel = StartServer(t, conf, "--sentinel")
	watcher := redis.NewSentinelClient(&redis.Options{Addr: g.Sentinel.Addr()})
	defer func() { _ = watcher.Close() }()
	must(eventually(func(ctx context.Context) error {
		replicas, err := watcher.Replicas(ctx, name).Result()
		if err != nil || len(replicas) != 1 || replicas[0]["flags"] != "slave" ||
			replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("redistest: the replica is not ready: %w, %v", err, replicas)
		}
		return nil
	}))
	g.Client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: name, SentinelAddrs: []string{g.Sentinel.Addr()},
	})
	t.Cleanup(func() { Close(g.Client) })
	return g
}

// Cluster returns a new client of a cluster of three masters that all tests of
// the binary share; it is started by the first of them and never flushed. The
// client is closed when the test ends.
func Cluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	needRedis(t)
	nodes := cluster()
	addrs := []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

// The nodes of the cluster know one another. On a busy machine none may be taken
// for dead.
var cluster = sync.OnceValue(func() (nodes []*Server) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	const count = 3
	for i := range count {
		node, err := Start("--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-node-timeout", "3000")
		must(err)
		nodes = append(nodes, node)
		// Nodes of equal epoch would first have to agree on another.
		must(node.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		must(node.client.ClusterAddSlotsRange(ctx, i*16384/count, (i+1)*16384/count-1).Err())
		must(nodes[0].client.ClusterMeet(ctx, "127.0.0.1", node.port()).Err())
	}
	must(eventually(func(ctx context.Context) error {
		for _, node := range nodes {
			info, err := node.client.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_size:3") {
				return fmt.Errorf("redistest: the cluster is not ready: %w\n%s", err, info)
			}
		}
		return nil
	}))
	return nodes
})
