package fairlimit_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// TestMain fails the package if a goroutine is left when nobody uses a limiter.
func TestMain(m *testing.M) { redistest.Main(m) }

// bubble runs f on fake time, with a server whose clock is that of the bubble.
func bubble(t *testing.T, f func(t *testing.T, server *redistest.MiniServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := redistest.Mini(t)
		defer time.Sleep(10 * time.Second) // in which what is under way ends
		f(t, server)
	})
}

// each runs a test in a bubble for each case of a table.
func each[C any](t *testing.T, cases map[string]C, f func(t *testing.T, server *redistest.MiniServer, c C)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *redistest.MiniServer) { f(t, server, c) })
		})
	}
}

// The words that all tests of limiters share. A limiter has no guard, unless it is
// given one.
var (
	queueOf = limitertest.Named
	status  = limitertest.Status
	nowhere = redistest.Nowhere
)

// processes makes so many limiters of one name, each with a client of its own.
func processes(
	t *testing.T, server *redistest.MiniServer, count int, quota fairlimit.Quota, opts ...fairlimit.Option,
) (all []*fairlimit.Queue) {
	for range count {
		all = append(all, queueOf(t, server.NewClient(t), "q", quota, opts...))
	}
	return all
}

func allow(t testing.TB, l fairlimit.Limiter) bool {
	t.Helper()
	allowed, err := l.Allow(t.Context())
	require.NoError(t, err)
	return allowed
}

// reserve takes a turn that nobody has to wait for.
func reserve(t testing.TB, q *fairlimit.Queue, n int) *fairlimit.Reservation {
	t.Helper()
	r, err := q.ReserveN(t.Context(), n)
	require.NoError(t, err)
	return r
}

// background calls, and returns once the caller waits.
func background(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// waits is a Wait in the background.
func waits(ctx context.Context, l fairlimit.Limiter) <-chan error {
	return background(func() error { return l.Wait(ctx) })
}

// within is a ctx of the test that ends after a time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// crowd is callers, of any limiters, in the order of their calls.
type crowd struct {
	*testing.T
	began time.Time
	all   sync.WaitGroup
	mu    sync.Mutex
	who   int
	went  []went
}

// went is a caller that has gone.
type went struct {
	who, permits int
	at           time.Duration // since the crowd began
}

func newCrowd(t *testing.T) *crowd { return &crowd{T: t, began: time.Now()} }

// call lets a caller wait for its turn. It may leave, or be refused because of its
// deadline.
func (c *crowd) call(ctx context.Context, l fairlimit.Limiter, permits int) {
	c.goes(permits, func() error {
		err := l.WaitN(ctx, permits)
		_, hasDeadline := ctx.Deadline()
		assert.True(c, err == nil || hasDeadline || ctx.Err() != nil, "%v", err)
		return err
	})
}

// goes is a caller that goes unless wait returns an error.
func (c *crowd) goes(permits int, wait func() error) {
	who := c.who
	c.who++
	c.all.Go(func() {
		if wait() == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.went = append(c.went, went{who, permits, time.Since(c.began)})
		}
	})
}

// line lets so many callers wait, one behind the other.
func (c *crowd) line(l fairlimit.Limiter, count int) {
	for range count {
		c.call(c.Context(), l, 1)
		synctest.Wait()
	}
}

// gone waits for all. Those who went are in the order of their calls.
func (c *crowd) gone() []went {
	c.all.Wait()
	slices.SortFunc(c.went, func(a, b went) int { return a.who - b.who })
	return c.went
}

// inOrder fails unless nobody went before somebody who called earlier.
func (c *crowd) inOrder() {
	c.Helper()
	all := c.gone()
	for i := 1; i < len(all); i++ {
		require.LessOrEqual(c, all[i-1].at, all[i].at, "%d went after %d", all[i-1].who, all[i].who)
	}
}

// most is how many permits went at most in a window of so long.
func (c *crowd) most(per time.Duration) (most int) {
	all := slices.Clone(c.gone())
	slices.SortFunc(all, func(a, b went) int { return int(a.at - b.at) })
	for i := range all {
		held := 0
		for _, w := range all[i:] {
			if w.at-all[i].at < per {
				held += w.permits
			}
		}
		most = max(most, held)
	}
	return most
}

// way is a client's way to its server. Commands take their time on it, or fail.
type way struct {
	mu    sync.Mutex
	now   traffic
	asked int // commands
}

type traffic struct {
	there, back   time.Duration
	before, after error  // instead of the command, instead of its answer
	at            func() // once the command is there
}

// is sets how it goes from now on, and counts anew.
func (w *way) is(now traffic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.asked = now, 0
}

func (w *way) commands() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *way) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	w.mu.Lock()
	now := w.now
	w.asked++
	w.mu.Unlock()
	time.Sleep(now.there)
	err := now.before
	if err == nil {
		if now.at != nil {
			now.at()
		}
		err = next(ctx, cmd)
		time.Sleep(now.back)
		err = cmp.Or(now.after, err)
	}
	cmd.SetErr(err)
	return err
}

// onAWay is a queue of another process, and its way to a server that knows the
// scripts.
func onAWay(
	t *testing.T, server *redistest.MiniServer, quota fairlimit.Quota, opts ...fairlimit.Option,
) (*fairlimit.Queue, *way) {
	t.Helper()
	w, rdb := &way{}, server.NewClient(t)
	for _, script := range lua.Assembled() {
		require.NoError(t, rdb.ScriptLoad(t.Context(), script.Source()).Err())
	}
	rdb.AddHook(redistest.Hook(w.process))
	return queueOf(t, rdb, "q", quota, opts...), w
}

var noConnection = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// saying is an error that Redis answers with.
type saying string

func (s saying) Error() string { return string(s) }
func (saying) RedisError()     {}

// calls are all that a limiter can be asked, by the name of the method.
func calls(q *fairlimit.Queue) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Wait":         q.Wait,
		"WaitN":        func(ctx context.Context) error { return q.WaitN(ctx, 2) },
		"Allow":        func(ctx context.Context) error { return errorOf(q.Allow(ctx)) },
		"Status":       func(ctx context.Context) error { return errorOf(q.Status(ctx)) },
		"ReserveN":     func(ctx context.Context) error { return errorOf(q.ReserveN(ctx, 1)) },
		"Take":         func(ctx context.Context) error { return errorOf(q.Take(ctx, nil)) },
		"Reset":        q.Reset,
		"Pause":        func(ctx context.Context) error { return q.Pause(ctx, time.Minute) },
		"Resume":       q.Resume,
		"Requeue":      q.Requeue,
		"SetQuotas":    func(ctx context.Context) error { return q.SetQuotas(ctx, fairlimit.PerSecond(3)) },
		"ForgetQuotas": q.ForgetQuotas,
	}
}

func errorOf(_ any, err error) error { return err }
