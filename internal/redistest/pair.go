package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Pair starts a primary and its replica for this test alone. The replica is in
// sync. The arguments are for both, see [StartServer].
func Pair(t testing.TB, args ...string) (primary, replica *Server) {
	t.Helper()
	primary = StartServer(t, append(args, "--repl-diskless-sync-delay", "0")...)
	replica = StartServer(t, append(args, "--replicaof", "127.0.0.1", strconv.Itoa(primary.port.number))...)
	if err := heard(primary); err != nil {
		t.Fatal(err)
	}
	return primary, replica
}

// heard returns when a replica acknowledges what the primary writes. The first
// acknowledgement proves nothing: Redis counts what it wrote before the replica
// came as acknowledged while the replica still loads it. The second one counts.
func heard(primary *Server) error {
	for range 2 {
		if err := eventually(primary.acknowledged); err != nil {
			return err
		}
	}
	return nil
}

// acknowledged writes, and returns nil if a replica says in time that it has
// what was written. A replica in sync says so once a second, or when asked.
func (s *Server) acknowledged(ctx context.Context) error {
	conn := s.client.Conn() // WAIT waits for what its own connection wrote
	defer func() { _ = conn.Close() }()
	err := conn.Set(ctx, "redistest", "", time.Millisecond).Err()
	for i := 0; redis.HasErrorPrefix(err, "MOVED"); i++ { // until a key is one of this node's
		err = conn.Set(ctx, fmt.Sprint("redistest", i), "", time.Millisecond).Err()
	}
	if err != nil {
		return err
	}
	replicas, err := conn.Wait(ctx, 1, time.Second).Result()
	if err == nil && replicas == 0 {
		err = errors.New("redistest: no replica has heard")
	}
	return err
}
