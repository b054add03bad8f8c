package enginetest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fairlimit/fairlimit/engine"
)

// subject is the engine under test, and the words in which the cases speak
// about it. They are for the goroutine that runs the case.
type subject struct {
	ctx   context.Context
	build engine.Builder
	rdb   redis.UniversalClient
	name  string // never used before
}

// problem is what ends a case.
type problem struct{ error }

func (s *subject) fail(format string, args ...any) {
	panic(problem{fmt.Errorf(format, args...)})
}

func (s *subject) want(ok bool, format string, args ...any) {
	if !ok {
		s.fail(format, args...)
	}
}

func (s *subject) ok(err error, what string) {
	if err != nil {
		s.fail("%s: %w", what, err)
	}
}

// engine makes the engine of a limiter of the case's name.
func (s *subject) engine(q engine.Quota) engine.Engine {
	e, err := s.build(s.config(q))
	s.ok(err, "build")
	return e
}

func (s *subject) config(q engine.Quota) engine.Config {
	return engine.Config{Client: s.rdb, Name: s.name, Quota: q}
}

// got is an answer. If it is a grant, its turn lies between from and to:
// counted from when the question was sent, and from when it was answered.
type got struct {
	engine.Answer
	n        int
	from, to time.Time
}

func now(n int) engine.Request                        { return engine.Request{N: n} }
func within(n int, most time.Duration) engine.Request { return engine.Request{N: n, MaxWait: most} }

func whenever(n int) engine.Request { return engine.Request{N: n, MaxWait: engine.Forever} }

func times(count int, r engine.Request) []engine.Request {
	requests := make([]engine.Request, count)
	for i := range requests {
		requests[i] = r
	}
	return requests
}

// take asks until every request is answered, as a limiter does, and holds each
// answer against what is true of all answers.
func (s *subject) take(e engine.Engine, requests ...engine.Request) []got {
	all, err := take(s.ctx, e, requests...)
	s.ok(err, "Take")
	return all
}

// one is take for a single request.
func (s *subject) one(e engine.Engine, r engine.Request) got { return s.take(e, r)[0] }

func take(ctx context.Context, e engine.Engine, requests ...engine.Request) ([]got, error) {
	var all []got
	for len(requests) > 0 {
		asked := time.Now()
		answers, err := e.Take(ctx, requests)
		arrived := time.Now()
		if err != nil {
			return nil, err
		}
		if len(answers) < 1 || len(answers) > len(requests) {
			return nil, fmt.Errorf("%d answers to %d requests", len(answers), len(requests))
		}
		for i, a := range answers {
			if err := sane(e, requests[i], a); err != nil {
				return nil, fmt.Errorf("request %+v, answer %+v: %w", requests[i], a, err)
			}
			all = append(all, got{a, requests[i].N, asked.Add(a.Wait), arrived.Add(a.Wait)})
		}
		requests = requests[len(answers):]
	}
	return all, nil
}

func sane(e engine.Engine, r engine.Request, a engine.Answer) error {
	switch {
	case a.Err != nil && a.Granted:
		return fmt.Errorf("granted with an error")
	case a.Err != nil:
		return nil
	case a.Wait < 0:
		return fmt.Errorf("the wait is negative")
	case a.Granted && a.Wait > r.MaxWait:
		return fmt.Errorf("granted later than asked for")
	case a.Granted && a.Wait > 0 && !e.Queues():
		return fmt.Errorf("granted for the future by an engine that does not queue")
	case a.Granted && a.Grant.N != r.N:
		return fmt.Errorf("the grant is not for what was asked")
	case !a.Granted && a.Wait <= r.MaxWait && e.Queues():
		return fmt.Errorf("refused by an engine that queues, though the turn would be in time")
	case !a.Granted && a.Wait == 0:
		return fmt.Errorf("refused, yet nothing to wait for")
	}
	return nil
}

// granted asks one by one and wants each of the requests granted at once.
func (s *subject) granted(e engine.Engine, requests ...engine.Request) []got {
	var all []got
	for i, r := range requests {
		g := s.one(e, r)
		s.want(g.Granted && g.Wait == 0, "request %d of %d, %+v, should be granted at once: %+v",
			i+1, len(requests), r, g.Answer)
		all = append(all, g)
	}
	return all
}

func (s *subject) refused(e engine.Engine, r engine.Request) got {
	g := s.one(e, r)
	s.want(!g.Granted && g.Err == nil, "request %+v should be refused: %+v", r, g.Answer)
	return g
}

func (s *subject) giveBack(e engine.Engine, grants ...engine.Grant) {
	s.ok(e.GiveBack(s.ctx, grants), "GiveBack")
}

func (s *subject) status(e engine.Engine) engine.Status {
	status, err := e.Status(s.ctx)
	s.ok(err, "Status")
	return status
}

// idle wants a limiter in which nothing is granted.
func (s *subject) idle(e engine.Engine, permits int) {
	status := s.status(e)
	s.want(reflect.DeepEqual(status, engine.Status{Available: permits}),
		"the limiter should be idle, with %d available: %+v", permits, status)
}

func (s *subject) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.ok(s.ctx.Err(), "sleep")
	}
}

// near fails the case if the later turn cannot lie the distance after the
// earlier one.
func (s *subject) near(later, earlier got, distance time.Duration) {
	s.want(later.Granted && earlier.Granted, "both should be granted: %+v, %+v", later.Answer, earlier.Answer)
	least, most := later.from.Sub(earlier.to), later.to.Sub(earlier.from)
	s.want(least <= distance+rounding && most >= distance-rounding,
		"the turns should be %v apart, but are between %v and %v", distance, least, most)
}

// keeps fails the case if a window of length Per certainly holds more than
// Permits.
func (s *subject) keeps(quota engine.Quota, turns []got) {
	for _, first := range turns {
		permits := 0
		for _, g := range turns {
			if g.Granted && !g.from.Before(first.from) && g.to.Sub(first.from) < quota.Per {
				permits += g.n
			}
		}
		s.want(permits <= quota.Permits, "%d permits within %v, the quota is %d", permits, quota.Per, quota.Permits)
	}
}

// together runs f in several goroutines and wants no error.
func (s *subject) together(count int, f func(i int) error) {
	var group errgroup.Group
	for i := range count {
		group.Go(func() error { return f(i) })
	}
	s.ok(group.Wait(), "together")
}

// keys returns the keys that have the limiter's name in their own.
func (s *subject) keys() []string {
	var (
		mu  sync.Mutex
		all []string
	)
	scan := func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*"+s.name+"*").Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	}
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		s.ok(rdb.ForEachMaster(s.ctx, scan), "KEYS")
	case *redis.Ring:
		s.ok(rdb.ForEachShard(s.ctx, scan), "KEYS")
	case *redis.Client:
		s.ok(scan(s.ctx, rdb), "KEYS")
	default:
		s.fail("a client of type %T", rdb)
	}
	return all
}
