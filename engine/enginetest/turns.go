package enginetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Who is granted a turn, and when.
var turns = []testCase{
	{
		name: "grants Permits at once and then refuses",
		explanation: "An idle limiter has Permits to give, at once. The next request must wait until the first " +
			"of them leaves the window.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 3, Per: long})
			s.granted(e, times(3, now(1))...)
			g := s.refused(e, now(1))
			s.want(g.Wait <= long+rounding && g.Wait > long-time.Minute, "the wait should be about %v: %v", long,
				g.Wait)
		},
	},
	{
		name: "grants n permits in one turn or none",
		explanation: "A request for n permits is granted whole, counts n, and is never split. A refused one " +
			"leaves the limiter as it was, however often it is made.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 5, Per: long})
			s.granted(e, now(3))
			for range 20 {
				s.refused(e, now(3))
				s.refused(e, within(5, time.Minute))
			}
			s.granted(e, now(2))
			s.refused(e, now(1))
		},
	},
	{
		name: "honours MaxWait",
		explanation: "A request is never granted a turn further ahead than its MaxWait. An engine that queues " +
			"grants one that is not; another refuses it and tells when to ask again.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 1, Per: long})
			s.granted(e, within(1, time.Minute))
			g := s.refused(e, within(1, time.Minute))
			s.want(g.Wait > time.Minute && g.Wait <= long+rounding, "the wait should be about %v: %v", long, g.Wait)
			g = s.one(e, within(1, long+time.Minute))
			s.want(g.Granted == e.Queues(), "the turn is within MaxWait: %+v", g.Answer)
			s.want(g.Wait > time.Minute && g.Wait <= long+rounding, "the wait should be about %v: %v", long, g.Wait)
		},
	},
	{
		name: "grants after the wait that it told",
		explanation: "Whoever is refused and sleeps exactly the wait it was told finds room, if nobody else " +
			"has asked.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 3, Per: 200 * time.Millisecond})
			s.granted(e, now(2))
			s.sleep(20 * time.Millisecond)
			s.granted(e, now(1))
			for _, n := range []int{1, 3, 3} {
				g := s.one(e, now(n))
				if !g.Granted { // a slow machine may have let the window pass
					s.sleep(time.Until(g.to))
					s.granted(e, now(n))
				}
			}
		},
	},
	{
		name: "answers several requests in order",
		explanation: "The requests of one Take are worked off in order, each as if it had come alone; a " +
			"refused one does not stand in the way of the next.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 4, Per: long})
			all := s.take(e, now(2), now(3), now(1), now(2), now(1), now(1))
			for i, want := range []bool{true, false, true, false, true, false} {
				s.want(all[i].Granted == want, "answer %d: granted should be %v: %+v", i, want, all[i].Answer)
			}
		},
	},
	{
		name: "answers thousands of requests",
		explanation: "One Take may answer a part of its requests, at least one; asked for the rest, it goes on " +
			"where it stopped.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 700, Per: long})
			all := s.take(e, times(3000, now(1))...)
			for i, g := range all {
				s.want(g.Granted == (i < 700), "answer %d: %+v", i, g.Answer)
			}
		},
	},
	{
		name: "refuses what can never fit",
		explanation: "More permits than the quota ever grants at once is ErrExceedsQuota, from Fits where the " +
			"engine knows it, else in the request's answer. The other requests of the batch are " +
			"answered as ever.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 3, Per: long})
			for n := range 3 {
				s.ok(e.Fits(n+1), "Fits, for what fits")
			}
			if err := e.Fits(4); err != nil {
				s.want(errors.Is(err, engine.ErrExceedsQuota), "Fits should return ErrExceedsQuota: %v", err)
				return
			}
			all := s.take(e, now(1), now(4), now(2))
			s.want(errors.Is(all[1].Err, engine.ErrExceedsQuota), "the answer should be ErrExceedsQuota: %+v",
				all[1].Answer)
			s.want(all[0].Granted && all[2].Granted, "the others should be granted: %+v, %+v", all[0].Answer,
				all[2].Answer)
		},
	},
	{
		name: "queues in order at the earliest moments",
		explanation: "An engine that queues gives the next turn the earliest moment that the quota allows, " +
			"never one before a turn that it gave already.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			if !e.Queues() {
				return
			}
			turns := s.granted(e, times(2, now(1))...)
			for range 7 {
				turns = append(turns, s.one(e, whenever(1)))
				s.near(turns[len(turns)-1], turns[len(turns)-3], long)
			}
			last := turns[len(turns)-1]
			both := s.one(e, whenever(2))
			s.near(both, last, long)
			s.near(s.one(e, whenever(1)), both, long)
			s.refused(e, now(1))
		},
	},
	{
		name: "keeps the quota in every window",
		explanation: "However requests come, from however many clients and goroutines at once, no window of " +
			"length Per holds more than Permits.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 7, Per: 150 * time.Millisecond}
			const callers, each = 4, 40
			engines := []engine.Engine{s.engine(quota), s.engine(quota)} // of two callers each
			var (
				mu    sync.Mutex
				turns []got
			)
			s.together(callers, func(i int) error {
				e := engines[i%2]
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range each {
					patience := time.Duration(random.IntN(2)) * quota.Per
					all, err := take(s.ctx, e, within(1+random.IntN(3), patience), within(1+random.IntN(7), patience))
					if err != nil {
						return err
					}
					mu.Lock()
					turns = append(turns, all...)
					mu.Unlock()
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
				return nil
			})
			s.keeps(quota, turns)
		},
	},
}
