package serve

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Drain returns when no connection to Redis is in use any more, or after d, and
// reports whether Redis has answered all. What an answer leads to is sent at once: a
// turn that nobody waits for any more is given back. A process that ends before
// that leaves turns behind that pass unused.
func Drain(rdb redis.UniversalClient, d time.Duration) bool {
	const enough = 3 // looks in a row
	quiet := 0
	for end := time.Now().Add(d); quiet < enough && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		quiet++
		if stats := rdb.PoolStats(); stats.TotalConns > stats.IdleConns {
			quiet = 0
		}
	}
	return quiet == enough
}

// WithTimeout is that of package context, without an end if the timeout is 0.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
