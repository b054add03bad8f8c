package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// long is a window that does not pass during a case.
	long = 10 * time.Minute

	// rounding is what an engine may round a wait up by, and what the clocks of
	// two machines may differ by within a case.
	rounding = 10 * time.Millisecond
)

var cases = []testCase{
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
		name:        "grants n permits in one turn or none",
		explanation: "A request for n permits is granted whole, counts n, and is never split.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 5, Per: long})
			s.granted(e, now(3))
			s.refused(e, now(3))
			s.granted(e, now(2))
			s.refused(e, now(1))
		},
	},
	{
		name:        "consumes nothing on a refusal",
		explanation: "A refused request leaves the limiter as it was, however often it is made.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 5, Per: long})
			s.granted(e, now(4))
			for range 20 {
				s.refused(e, now(2))
				s.refused(e, within(5, time.Minute))
			}
			s.granted(e, now(1))
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
		name: "gives back",
		explanation: "A turn that lies ahead and is given back is free for the next; those that are held stay " +
			"where they are.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 1, Per: long})
			first := s.granted(e, now(1))[0]
			if !e.Queues() {
				s.giveBack(e, first.Grant)
				s.want(s.status(e).Available <= 1, "more is available than was ever granted")
				return
			}
			second, third := s.one(e, whenever(1)), s.one(e, whenever(1))
			s.giveBack(e, third.Grant)
			s.near(s.one(e, whenever(1)), second, long)
			s.want(s.status(e).Queued == 2, "two should be queued: %+v", s.status(e))
		},
	},
	{
		name: "gives back once",
		explanation: "The newest turn, given back twice, in one call or in two, frees its permits once. (A " +
			"limiter gives every grant back once; an engine that cannot tell the permits of one " +
			"moment apart may rely on it.)",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 1, Per: long})
			held := s.granted(e, now(1))
			if e.Queues() {
				held = s.take(e, times(3, whenever(1))...)
			}
			last := held[len(held)-1].Grant
			before := s.status(e)
			s.giveBack(e, last, last)
			s.giveBack(e, last)
			after := s.status(e)
			s.want(after.Available <= before.Available+1, "one permit was given back: %+v, before: %+v", after, before)
			s.want(after.Queued >= before.Queued-1, "one permit was given back: %+v, before: %+v", after, before)
		},
	},
	{
		name: "does not give back what has passed",
		explanation: "A turn that has come may have been used: an engine that queues keeps counting it. Giving " +
			"it back is no error.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 1, Per: long})
			if !e.Queues() {
				return
			}
			g := s.granted(e, now(1))[0]
			s.sleep(2 * time.Millisecond)
			s.giveBack(e, g.Grant)
			s.refused(e, now(1))
		},
	},
	{
		name:        "does not take back what another limiter granted",
		explanation: "After Reset, a grant from before names nothing: giving it back changes nothing.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 1, Per: long})
			old := s.granted(e, now(1))
			if e.Queues() {
				old = append(old, s.one(e, whenever(1)))
			}
			s.ok(e.Reset(s.ctx), "Reset")
			s.granted(e, now(1))
			if e.Queues() {
				s.one(e, whenever(1))
			}
			before := s.status(e)
			for _, g := range old {
				s.giveBack(e, g.Grant)
			}
			after := s.status(e)
			s.want(after.Available == before.Available && after.Queued == before.Queued, "%+v, before: %+v", after,
				before)
		},
	},
	{
		name: "keeps the quota in every window",
		explanation: "However requests come, from however many clients, no window of length Per holds more " +
			"than Permits.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 7, Per: 150 * time.Millisecond}
			const clients, each = 4, 40
			var (
				mu    sync.Mutex
				turns []got
			)
			s.together(clients, func(i int) error {
				e, err := s.build(s.config(quota))
				if err != nil {
					return err
				}
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
	{
		name:        "may be called by many at once",
		explanation: "An engine's methods may be called by many goroutines at once.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 25, Per: long})
			granted := make([]bool, 50)
			s.together(len(granted), func(i int) error {
				all, err := take(s.ctx, e, now(1))
				if err == nil {
					granted[i] = all[0].Granted
					_, err = e.Status(s.ctx)
				}
				return err
			})
			count := 0
			for _, g := range granted {
				if g {
					count++
				}
			}
			s.want(count == 25, "25 of 50 should be granted, not %d", count)
		},
	},
	{
		name:        "reports how it stands",
		explanation: "Status changes nothing, and says what the next request will find.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 5, Per: long})
			s.idle(e, 5)
			s.granted(e, now(2))
			status := s.status(e)
			s.want(status == engine.Status{Available: 3}, "3 should be available, without delay: %+v", status)
			s.granted(e, now(3))
			for range 10 {
				status = s.status(e)
			}
			g := s.one(e, whenever(1))
			s.want(status.Available == 0 && status.Queued == 0, "none should be available or queued: %+v", status)
			s.want((status.Delay-g.Wait).Abs() < time.Second, "Delay is %v, the next request waits %v", status.Delay,
				g.Wait)
			if e.Queues() {
				s.one(e, whenever(4))
				status = s.status(e)
				g = s.one(e, whenever(1))
				s.want(status.Available == 0 && status.Queued == 5, "five should be queued: %+v", status)
				s.want((status.Delay-g.Wait).Abs() < time.Second, "Delay is %v, the next request waits %v",
					status.Delay, g.Wait)
			}
		},
	},
	{
		name:        "forgets on Reset",
		explanation: "After Reset, the limiter is idle. Resetting an idle one is no error.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			s.ok(e.Reset(s.ctx), "Reset")
			s.granted(e, now(2))
			s.one(e, whenever(2))
			s.ok(e.Reset(s.ctx), "Reset")
			s.idle(e, 2)
			s.granted(e, now(2))
			s.refused(e, now(1))
		},
	},
	{
		name:        "shares by name",
		explanation: "Engines of one name share what one limiter has.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 2, Per: long}
			a, b := s.engine(quota), s.engine(quota)
			s.granted(a, now(1))
			s.granted(b, now(1))
			s.refused(a, now(1))
			s.refused(b, now(1))
		},
	},
	{
		name:        "keeps names apart",
		explanation: "Limiters of different names, or different prefixes, have nothing to do with one another.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 1, Per: long}
			prefix := "other:"
			for _, change := range []func(*engine.Config){
				func(*engine.Config) {},
				func(c *engine.Config) { c.Name += "2" },
				func(c *engine.Config) { c.Prefix = &prefix },
			} {
				cfg := s.config(quota)
				change(&cfg)
				e, err := s.build(cfg)
				s.ok(err, "build")
				s.granted(e, now(1))
				s.refused(e, now(1))
			}
		},
	},
	{
		name: "works under any name or says no",
		explanation: "Spaces, braces, line breaks, a kilobyte of text: a name works and is no other, or " +
			"building the engine is ErrUnsupported.",
		text: func(s *subject) {
			for _, odd := range []string{
				" ", "{", "}", "{}", "}{", "{a}b", "a}b{c", "\n\x00\xff", "*?[a]", ":value",
				strings.Repeat("x", 1024),
			} {
				cfg := s.config(engine.Quota{Permits: 1, Per: long})
				cfg.Name = odd + s.name
				e, err := s.build(cfg)
				if errors.Is(err, engine.ErrUnsupported) {
					continue
				}
				s.ok(err, "build")
				s.granted(e, now(1))
				s.refused(e, now(1))
				defer func() { s.ok(e.Reset(s.ctx), "Reset") }()
			}
		},
	},
	{
		name: "refuses a key that is not its own",
		explanation: "Where a key of the engine's holds something of another type, Take and Status are " +
			"ErrState. Reset clears it.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 5, Per: long}
			s.granted(s.engine(quota), now(1))
			keys := s.keys()
			s.want(len(keys) > 0, "no key has the limiter's name in its own")
			for _, key := range keys {
				e := s.engine(quota)
				kind, err := s.rdb.Type(s.ctx, key).Result()
				s.ok(err, "TYPE")
				s.ok(s.rdb.Del(s.ctx, key).Err(), "DEL")
				if kind == "list" {
					s.ok(s.rdb.Set(s.ctx, key, "foreign", 0).Err(), "SET")
				} else {
					s.ok(s.rdb.RPush(s.ctx, key, "foreign").Err(), "RPUSH")
				}
				answers, err := e.Take(s.ctx, []engine.Request{now(1)})
				s.want(errors.Is(err, engine.ErrState), "Take with %q, once a %s, of another type: %+v, %v",
					key, kind, answers, err)
				status, err := e.Status(s.ctx)
				s.want(errors.Is(err, engine.ErrState), "Status with %q, once a %s, of another type: %+v, %v",
					key, kind, status, err)
				s.ok(e.Reset(s.ctx), "Reset")
				_, err = take(s.ctx, e, now(1))
				s.ok(err, "Take after Reset")
			}
		},
	},
	{
		name:        "goes on when the server forgets its scripts",
		explanation: "SCRIPT FLUSH, or a restart, empties the server's script cache. No caller may notice.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			for range 2 {
				s.granted(e, now(1))
				s.ok(s.rdb.ScriptFlush(s.ctx).Err(), "SCRIPT FLUSH")
			}
			s.status(e)
			s.ok(s.rdb.ScriptFlush(s.ctx).Err(), "SCRIPT FLUSH")
			s.refused(e, now(1))
		},
	},
	{
		name:        "consumes nothing for a ctx that has ended",
		explanation: "With a ctx that has ended, every method returns an error and nothing has happened.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 2, Per: long})
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			_, err := e.Take(ended, []engine.Request{now(1)})
			s.want(err != nil, "Take should return an error")
			s.idle(e, 2)
			s.granted(e, now(2))
			_, err = e.Status(ended)
			s.want(err != nil, "Status should return an error")
			s.want(e.Reset(ended) != nil, "Reset should return an error")
			s.refused(e, now(1))
		},
	},
	{
		name: "asks once where an answer is lost",
		explanation: "When the connection breaks after a request was sent, the error matches " +
			"ErrOutcomeUnknown, and the permits are consumed once or not at all: it must not be sent " +
			"again, whatever the client's MaxRetries are.",
		text: func(s *subject) {
			line := tap(s.rdb)
			e := s.engine(engine.Quota{Permits: 10, Per: long})
			s.granted(e, now(1)) // the script is loaded and the connection made
			line.loseReply()
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(line.lost(), "no reply was lost: the engine does not ask with the client that it was given")
			s.want(errors.Is(err, engine.ErrOutcomeUnknown), "Take should return ErrOutcomeUnknown: %+v, %v",
				answers, err)
			left := s.status(e).Available
			s.want(left == 8 || left == 9, "8 or 9 should be available, not %d", left)
		},
	},
	{
		name: "honours what it is configured with or says no",
		explanation: "A Burst, a further quota, a guard, a Per or Permits of any size: the engine keeps to it, " +
			"or building it is ErrUnsupported. It is never ignored.",
		text: func(s *subject) {
			for i, c := range []struct {
				change func(*engine.Config)
				fit    int // how many single permits fit at once
			}{
				{func(c *engine.Config) { c.Quota.Burst = 2 }, 2},
				{func(c *engine.Config) { c.Extra = []engine.Quota{{Permits: 3, Per: 2 * long}} }, 3},
				{func(c *engine.Config) {
					c.Quota, c.Guard = engine.Quota{Permits: 2, Per: time.Millisecond}, long
				}, 2},
				{func(c *engine.Config) { c.Quota = engine.Quota{Permits: 2, Per: 365 * 24 * time.Hour} }, 2},
				{func(c *engine.Config) { c.Quota = engine.Quota{Permits: 2, Per: math.MaxInt64} }, 2},
				{func(c *engine.Config) { c.Quota = engine.Quota{Permits: 2, Per: long}; c.Guard = math.MaxInt64 }, 2},
				{func(c *engine.Config) { c.Quota.Permits = math.MaxInt }, 5},
				{func(c *engine.Config) { c.Stored = true }, 10},
				{func(c *engine.Config) { c.Quota = engine.Quota{Permits: 5, Per: 1} }, 5},
			} {
				cfg := s.config(engine.Quota{Permits: 10, Per: long})
				cfg.Name = fmt.Sprintf("%s-%d", s.name, i)
				c.change(&cfg)
				e, err := s.build(cfg)
				if errors.Is(err, engine.ErrUnsupported) {
					continue
				}
				s.ok(err, "build")
				s.granted(e, times(c.fit, now(1))...)
				if c.fit < 5 {
					s.sleep(2 * time.Millisecond)
					s.refused(e, now(1))
				}
			}
		},
	},
	{
		name: "does no I/O until it is asked",
		explanation: "A Builder does not talk to the server. Without a server, every method returns an error; " +
			"none of them grants.",
		text: func(s *subject) {
			rdb, dials := unreachable()
			defer func() { _ = rdb.Close() }()
			e, err := s.build(engine.Config{Client: rdb, Name: s.name, Quota: engine.Quota{Permits: 1, Per: long}})
			s.ok(err, "build without a server")
			s.want(dials.Load() == 0, "building dialed")
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(err != nil, "Take without a server: %+v", answers)
			_, err = e.Status(s.ctx)
			s.want(err != nil, "Status without a server should return an error")
			s.want(e.GiveBack(s.ctx, []engine.Grant{{ID: "x", At: math.MaxInt32, N: 1}}) != nil,
				"GiveBack without a server should return an error")
			s.want(e.Reset(s.ctx) != nil, "Reset without a server should return an error")
		},
	},
	{
		name: "stands still while it is paused",
		explanation: "While a queue is paused nobody's turn comes; turns keep their order and distance. The " +
			"longest pause counts, and a Reset ends it.",
		text: func(s *subject) {
			e, steered := s.engine(engine.Quota{Permits: 2, Per: long}).(engine.Steerer)
			if !steered {
				return
			}
			s.granted(e, now(1))
			s.ok(e.Pause(s.ctx, 2*long), "Pause")
			s.ok(e.Pause(s.ctx, long), "Pause for less long")
			g := s.refused(e, now(1))
			s.want(g.Wait <= 2*long+rounding && g.Wait > 2*long-time.Minute, "the wait should be about %v: %v", 2*long, g.Wait)
			s.want(g.Paused <= g.Wait && g.Paused > g.Wait-rounding, "all of it is the pause: %+v", g.Answer)
			status := s.status(e)
			s.want(status.Available == 0 && status.Paused > 2*long-time.Minute && status.Delay >= status.Paused,
				"it is paused: %+v", status)
			if e.Queues() {
				next, last := s.one(e, whenever(1)), s.one(e, whenever(1))
				s.want(next.Granted && next.Wait > 2*long-time.Minute, "a turn after the pause: %+v", next.Answer)
				s.want(last.Granted && last.Wait-next.Wait > long-time.Minute, "and one after that: %+v", last.Answer)
			}
			s.ok(e.Reset(s.ctx), "Reset")
			s.idle(e, 2)
			s.granted(e, now(2))
		},
	},
	{
		name: "tells the news of its queue",
		explanation: "Every grant, and every Look at a queue that there is, tells its news: whose grants they " +
			"are, when their moments come, whether it was reset. Look changes nothing.",
		text: func(s *subject) {
			var news []engine.News
			cfg := s.config(engine.Quota{Permits: 1, Per: long})
			cfg.Heard = func(n *engine.News) { news = append(news, *n) }
			built, err := s.build(cfg)
			s.ok(err, "build")
			e, steered := built.(engine.Steerer)
			if !steered {
				return
			}
			heard := func(g got) {
				s.want(len(news) > 0, "there should be news")
				n := news[len(news)-1]
				s.want(n.Queue == g.Grant.ID && !n.Reset && !n.Lost, "the news should be those of %+v: %+v", g.Grant, n)
				comes := n.Arrived.Add(n.Until(g.Grant.At))
				s.want(comes.After(g.from.Add(-rounding)) && comes.Before(g.to.Add(rounding)),
					"the turn should come at %v to %v, not %v", g.from, g.to, comes)
				news = nil
			}
			g := s.granted(e, now(1))[0]
			heard(g)
			if e.Queues() {
				g = s.one(e, whenever(1))
				heard(g)
			}
			before := s.status(e)
			news = nil
			s.ok(e.Look(s.ctx), "Look")
			heard(g)
			s.want(s.status(e).Queued == before.Queued, "Look changed something")
			s.ok(e.Reset(s.ctx), "Reset")
			news = nil
			s.ok(e.Look(s.ctx), "Look")
			s.want(len(news) == 1 && news[0].Reset && news[0].Queue != g.Grant.ID, "it was reset: %+v", news)
		},
	},
	{
		name: "is steered without a quota or says no",
		explanation: "An engine that is made without a quota looks, pauses, reports and resets, and grants " +
			"nothing; or building it is ErrUnsupported.",
		text: func(s *subject) {
			built, err := s.build(engine.Config{Client: s.rdb, Name: s.name})
			if errors.Is(err, engine.ErrUnsupported) {
				return
			}
			s.ok(err, "build")
			e, steered := built.(engine.Steerer)
			s.want(steered, "there is nothing that it could do")
			s.want(errors.Is(e.Fits(1), engine.ErrNoQuota), "Fits should be ErrNoQuota: %v", e.Fits(1))
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(errors.Is(err, engine.ErrNoQuota), "Take should be ErrNoQuota: %+v, %v", answers, err)
			s.ok(e.Look(s.ctx), "Look")
			s.want(s.status(e) == engine.Status{}, "there is no queue: %+v", s.status(e))
			given := s.engine(engine.Quota{Permits: 2, Per: long})
			s.granted(given, now(1))
			s.ok(e.Pause(s.ctx, long), "Pause")
			s.want(s.status(given).Paused > long-time.Minute, "it is paused: %+v", s.status(given))
			s.ok(e.Reset(s.ctx), "Reset")
			s.idle(given, 2)
		},
	},
	{
		name: "takes stored quotas for its own or says no",
		explanation: "An engine that is made to look for stored quotas obeys those that anybody stores from the " +
			"next question on, refuses by its answers what exceeds them, and goes back to its own when they are " +
			"forgotten; or building it is ErrUnsupported.",
		text: func(s *subject) {
			cfg := s.config(engine.Quota{Permits: 5, Per: long})
			cfg.Stored = true
			built, err := s.build(cfg)
			if errors.Is(err, engine.ErrUnsupported) {
				return
			}
			s.ok(err, "build")
			e, steered := built.(engine.Steerer)
			s.want(steered, "nobody can store any")
			admin, err := s.build(engine.Config{Client: s.rdb, Name: s.name, Stored: true})
			s.ok(err, "build without a quota")
			s.idle(e, 5)
			s.ok(admin.(engine.Steerer).SetQuotas(s.ctx, []engine.Quota{{Permits: 2, Per: long}}), "SetQuotas")
			quotas, stored, err := e.Quotas(s.ctx)
			s.ok(err, "Quotas")
			s.want(stored && len(quotas) == 1 && quotas[0] == engine.Quota{Permits: 2, Per: long}, "2 are stored: %+v, %v",
				quotas, stored)
			s.granted(e, now(2))
			s.refused(admin, now(1))
			s.ok(e.Reset(s.ctx), "Reset")
			s.ok(e.Fits(3), "Fits, before the stored quotas were looked at")
			all := s.take(e, now(1), now(3), now(1))
			s.want(all[0].Granted && errors.Is(all[1].Err, engine.ErrExceedsQuota) && all[2].Granted,
				"the second should be ErrExceedsQuota: %+v", all)
			s.ok(e.SetQuotas(s.ctx, nil), "SetQuotas of none")
			_, stored, err = e.Quotas(s.ctx)
			s.ok(err, "Quotas")
			s.want(!stored, "none should be stored")
			s.granted(e, now(3))
			_, err = admin.Take(s.ctx, []engine.Request{now(1)})
			s.want(errors.Is(err, engine.ErrNoQuota), "Take without any quota should be ErrNoQuota: %v", err)
		},
	},
}
