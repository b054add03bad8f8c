package fairlimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

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
