package redistest

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// MiniServer is an in-process stand-in for Redis that no socket leads to. Time
// passes for it as for the test: in a bubble, on the bubble's clock.
type MiniServer struct {
	*miniredis.Miniredis
	Client *redis.Client // one of [MiniServer.NewClient]

	mu     sync.Mutex
	closed bool
}

// Mini starts a server that ends with the test. It works inside a
// [synctest.Test] bubble, several times in one binary, and outside.
func Mini(t testing.TB) *MiniServer {
	m := &MiniServer{Miniredis: miniredis.NewMiniRedis()}
	m.ClockTTL(true)
	t.Cleanup(m.close)
	m.Client = m.NewClient(t)
	return m
}

// NewClient returns a further client, as another process would have; it is
// closed when the test ends. Hundreds of calls may be under way at once.
func (m *MiniServer) NewClient(t testing.TB) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		// Never dialed; but a host name would be looked up, by goroutines
		// that outlive the bubble.
		Addr:   "127.0.0.1:1",
		Dialer: m.dial,

		PoolSize:                 1024,
		ReadTimeout:              time.Minute, // outside a bubble, a busy machine takes its time
		ReadBufferSize:           4 << 10,
		WriteBufferSize:          4 << 10,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Bubble runs f in a [synctest.Test] bubble with a client of a [Mini] server.
// What [synctest.Test] forbids is forbidden to f: t.Run, t.Parallel.
func Bubble(t *testing.T, f func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, Mini(t).Client) })
}

// dial refuses once the server is closed: Miniredis.Dial would start it again,
// and a goroutine would outlive the bubble.
func (m *MiniServer) dial(context.Context, string, string) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	return m.Dial()
}

func (m *MiniServer) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.Close()
}
