package fairlimit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestMain holds the whole binary to what a limiter promises: no goroutine is
// left when nobody uses it.
func TestMain(m *testing.M) { redistest.Main(m) }

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
	calls   = limitertest.Calls
	engines = limitertest.Engines
)

// onBoth runs f with each engine on each kind of server.
func onBoth(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option)) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) { f(t, rdb, e) })
		})
	}
}

// nowhere returns a client of a server that is not there. It tries once.
func nowhere(t testing.TB) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { redistest.Close(rdb) })
	return rdb
}

func queueOf(
	t *testing.T, rdb *redis.Client, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) *fairlimit.Queue {
	q, err := fairlimit.NewQueue(rdb, name, quota, append([]fairlimit.Option{fairlimit.WithGuard(0)}, opts...)...)
	require.NoError(t, err)
	return q
}

// stub is an engine that answers as the test says, when the test says.
type stub struct {
	queues   bool
	calls    chan *call
	mu       sync.Mutex
	returned []engine.Grant
}

// call is one Take that waits for its answer.
type call struct {
	ctx      context.Context
	requests []engine.Request
	answer   chan<- outcome
}

type outcome struct {
	answers []engine.Answer
	err     error
}

func newStub(t testing.TB, opts ...fairlimit.Option) (*stub, fairlimit.Limiter) {
	s := &stub{queues: true, calls: make(chan *call)}
	return s, s.limiter(t, opts...)
}

func (s *stub) limiter(t testing.TB, opts ...fairlimit.Option) fairlimit.Limiter {
	return s.with(t, nowhere(t), opts...)
}

// with makes a limiter with a client, by which it goes although nothing is sent.
func (s *stub) with(t testing.TB, rdb redis.UniversalClient, opts ...fairlimit.Option) fairlimit.Limiter {
	t.Cleanup(func() { _ = rdb.Close() })
	build := func(engine.Config) (engine.Engine, error) { return s, nil }
	l, err := fairlimit.New(rdb, "stub", fairlimit.PerSecond(1), append(opts, fairlimit.WithEngine(build))...)
	require.NoError(t, err)
	return l
}

func (s *stub) Queues() bool   { return s.queues }
func (s *stub) Fits(int) error { return nil }

func (s *stub) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answer := make(chan outcome)
	s.calls <- &call{ctx, requests, answer}
	o := <-answer
	return o.answers, o.err
}

func (s *stub) GiveBack(_ context.Context, grants []engine.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, grants...)
	return nil
}

func (s *stub) givenBack() []engine.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.returned
}

func (s *stub) Status(context.Context) (engine.Status, error) { return engine.Status{}, nil }
func (s *stub) Reset(context.Context) error                   { return nil }

// grants answers the first count requests with turns at once.
func (c *call) grants(count int) {
	answers := make([]engine.Answer, count)
	for i := range answers {
		answers[i] = granted(0, c.requests[i].N)
	}
	c.answer <- outcome{answers: answers}
}

func (c *call) answers(answers ...engine.Answer) { c.answer <- outcome{answers: answers} }
func (c *call) fails(err error)                  { c.answer <- outcome{err: err} }

func (c *call) permits() []int {
	all := make([]int, len(c.requests))
	for i, r := range c.requests {
		all[i] = r.N
	}
	return all
}

func granted(wait time.Duration, n int) engine.Answer {
	return engine.Answer{Granted: true, Wait: wait, Grant: engine.Grant{ID: "grant", At: int64(wait), N: n}}
}

func refused(wait time.Duration) engine.Answer { return engine.Answer{Wait: wait} }

// lineUp lets callers for 1, 2, … n permits call one after the other, and
// returns their errors in the order in which they return.
func lineUp(ctx context.Context, l fairlimit.Limiter, from, to int) <-chan error {
	errs := make(chan error, to-from+1)
	for n := from; n <= to; n++ {
		go func() { errs <- l.WaitN(ctx, n) }()
		synctest.Wait()
	}
	return errs
}

// goers lets so many callers wait, one after the other, and notes who went when.
type goers struct {
	mu    sync.Mutex
	order []int
	at    []time.Time
	all   sync.WaitGroup
}

func (g *goers) wait(t *testing.T, l fairlimit.Limiter, first, count int) {
	for who := first; who < first+count; who++ {
		g.all.Go(func() {
			if !assert.NoError(t, l.Wait(t.Context())) {
				return
			}
			g.goes(who)
		})
		synctest.Wait()
	}
}

func (g *goers) goes(who int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.order, g.at = append(g.order, who), append(g.at, time.Now())
}

// most is the most who went in any stretch of so long.
func (g *goers) most(per time.Duration) (most int) {
	slices.SortFunc(g.at, time.Time.Compare)
	for i := range g.at {
		in := 0
		for _, at := range g.at[i:] {
			if at.Sub(g.at[i]) < per {
				in++
			}
		}
		most = max(most, in)
	}
	return most
}

// commands is the part of a hook that is not about single commands: it passes
// everything on.
type commands struct{}

func (commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// late holds up every answer.
type late struct {
	commands
	by time.Duration
}

func (l late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		time.Sleep(l.by)
		return err
	}
}

// onTheWay holds up the next command, on its way there or back.
type onTheWay struct {
	commands
	there, back atomic.Int64
}

func (o *onTheWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		there, back := o.there.Swap(0), o.back.Swap(0)
		time.Sleep(time.Duration(there))
		err := next(ctx, cmd)
		time.Sleep(time.Duration(back))
		return err
	}
}

// refuses fails what is asked while it is set.
type refuses struct {
	commands
	set *atomic.Bool
}

func (r refuses) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.set.Load() {
			cmd.SetErr(errors.New("refused"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// within is a ctx of the test that ends after a time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
