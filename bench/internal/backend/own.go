package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotOurs says that a server cannot be restarted.
var ErrNotOurs = errors.New("it is not the benchmark's to restart")

// Own returns a server of the same kind that is ours to restart: it loses what
// it holds, as any Redis without persistence. For the embedded one that is
// another embedded one. For one that was given, it is a redis-server process on
// a free port of the loopback interface. If redis-server is not installed, the
// error matches ErrNotOurs.
func (b *Backend) Own(ctx context.Context) (*Backend, error) {
	if b.Addr == b.embedded {
		return ownEmbedded()
	}
	return ownServer(ctx)
}

// Restart ends the server, and starts an empty one at the same address after a
// while.
func (b *Backend) Restart(ctx context.Context, away time.Duration) error {
	if b.restart == nil {
		return fmt.Errorf("the Redis at %s: %w", b.Addr, ErrNotOurs)
	}
	return b.restart(ctx, away)
}
