package fairlimittest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Server is a Redis in the memory of one test. It comes from [Start]. Its
// methods may be called by several goroutines at once.
type Server struct {
	// Redis is the server, for whatever else a test does to one, such as
	// SetError or Dump. It listens at no address, so it has no Addr.
	Redis *miniredis.Miniredis

	mini    *redistest.MiniServer
	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, after a command
}

// Start starts an empty server that ends with the test. Time passes for it as
// for the test: in a bubble, on the bubble's clock.
func Start(t testing.TB) *Server {
	mini := redistest.Mini(t)
	return &Server{Redis: mini.Miniredis, mini: mini, changed: make(chan struct{})}
}

// Client returns a new client, as another process would have. It is closed when
// the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	rdb := s.mini.NewClient(t)
	rdb.AddHook(redistest.Hook(s.answered))
	return rdb
}

// Queue returns a new limiter with a client of its own, as another process would
// have. Unless an option says otherwise it has no guard, so that times in tests
// are exact. It fails the test for what [fairlimit.NewQueue] refuses.
func (s *Server) Queue(
	t testing.TB, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	t.Helper()
	opts = append([]fairlimit.Option{fairlimit.WithGuard(0)}, opts...)
	q, err := fairlimit.NewQueue(s.Client(t), name, quota, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// SetTime sets the server's clock, which then stands still until it is set
// again, or, with the zero time, follows the test's clock once more. What was
// granted up to then is due, and what is out of every window is free. Callers
// that sleep are not woken: they sleep on the clock of the test.
//
// If the server's clock is set back, the queue carries on.
func (s *Server) SetTime(now time.Time) { s.Redis.SetTime(now) }
