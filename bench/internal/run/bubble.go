package run

import (
	"context"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// InBubble is the life of a process whose job has a part in a bubble of
// testing/synctest. It does not return.
//
// Only a test can have a bubble, so this is a test. [testing.Main] is kept for
// programs that are not test binaries and run tests all the same.
func InBubble[J any](do func(ctx context.Context, job J, bubble func(func())) (any, error)) {
	runtime.GOMAXPROCS(1)   // there is one thing to do at a time, and handing it over costs
	debug.SetGCPercent(400) // the stacks of ten thousand callers are much to look through
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{{Name: "simulation", F: func(t *testing.T) {
		Answer(func(ctx context.Context, job J) (any, error) {
			return do(ctx, job, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
		})
	}}}, nil, nil)
}

// Within makes a client whose connections lead to the server without a socket,
// and stay. It works in a bubble.
func Within(server *miniredis.Miniredis) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:1", // never dialed; but a name would be looked up, outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },

		Protocol: 2, DisableIdentity: true, ConnMaxIdleTime: -1, PoolSize: 1024,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
