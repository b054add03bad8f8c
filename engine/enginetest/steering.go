package enginetest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// What those can do who steer a queue.
var steering = []testCase{
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
			s.want(g.Wait <= 2*long+rounding && g.Wait > 2*long-time.Minute, "the wait should be about %v: %v",
				2*long, g.Wait)
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
			// News may say that a turn comes later by what their question took,
			// and that one comes now that has passed.
			asked := time.Now()
			heard := func(g got) {
				s.want(len(news) > 0, "there should be news")
				n := news[len(news)-1]
				s.want(n.Queue == g.Grant.ID && !n.Reset && !n.Lost, "the news should be those of %+v: %+v", g.Grant, n)
				comes := n.Arrived.Add(n.Until(g.Grant.At))
				latest := g.to.Add(n.Arrived.Sub(asked))
				if g.to.Before(asked) {
					latest = n.Arrived
				}
				s.want(comes.After(g.from.Add(-rounding)) && comes.Before(latest.Add(rounding)),
					"the turn should come at %v to %v, not %v", g.from, latest, comes)
				news, asked = nil, time.Now()
			}
			g := s.granted(e, now(1))[0]
			heard(g)
			if e.Queues() {
				g = s.one(e, whenever(1))
				heard(g)
			}
			before := s.status(e)
			news, asked = nil, time.Now()
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
			s.want(reflect.DeepEqual(s.status(e), engine.Status{}), "there is no queue: %+v", s.status(e))
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
			two := []engine.Quota{{Permits: 2, Per: long}}
			s.ok(admin.(engine.Steerer).SetQuotas(s.ctx, two), "SetQuotas")
			quotas, stored, err := e.Quotas(s.ctx)
			s.ok(err, "Quotas")
			s.want(stored && slices.Equal(quotas, two), "2 are stored: %+v, %v",
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
