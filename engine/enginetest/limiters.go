package enginetest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// What one limiter is: its state, its name, its keys, what it is made with.
var limiters = []testCase{
	{
		name:        "reports how it stands",
		explanation: "Status changes nothing, and says what the next request will find.",
		text: func(s *subject) {
			e := s.engine(engine.Quota{Permits: 5, Per: long})
			s.idle(e, 5)
			s.granted(e, now(2))
			status := s.status(e)
			s.want(reflect.DeepEqual(status, engine.Status{Available: 3}),
				"3 should be available, without delay: %+v", status)
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
		name: "is one limiter under each name",
		explanation: "Engines of one name share what one limiter has. Limiters of different names, or " +
			"different prefixes, have nothing to do with one another.",
		text: func(s *subject) {
			quota := engine.Quota{Permits: 2, Per: long}
			prefix := "other:"
			for _, change := range []func(*engine.Config){
				func(*engine.Config) {},
				func(c *engine.Config) { c.Name += "2" },
				func(c *engine.Config) { c.Prefix = &prefix },
			} {
				cfg := s.config(quota)
				change(&cfg)
				for range 2 {
					e, err := s.build(cfg)
					s.ok(err, "build")
					s.granted(e, now(1))
				}
				e, err := s.build(cfg)
				s.ok(err, "build")
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
		name: "counts further units",
		explanation: "A request goes where all its units have room, refused in one of them it takes nothing of the " +
			"others, and a grant gives all of them back. Or building the engine is ErrUnsupported.",
		text: func(s *subject) {
			cfg := s.config(engine.Quota{Permits: 5, Per: long})
			cfg.Units = []engine.Unit{{Name: "a", Quotas: []engine.Quota{{Permits: 10, Per: long}}}}
			e, err := s.build(cfg)
			if errors.Is(err, engine.ErrUnsupported) {
				return
			}
			s.ok(err, "build")
			s.granted(e, engine.Request{N: 1, Amounts: "a=7"})
			s.refused(e, engine.Request{N: 1, Amounts: "a=4"})
			s.granted(e, engine.Request{N: 1, Amounts: "a=3"}, now(3))
			s.refused(e, now(1))
			if !e.Queues() {
				return
			}
			later := s.one(e, engine.Request{N: 1, Amounts: "a=2", MaxWait: engine.Forever})
			s.want(later.Granted && s.status(e).Units["a"].Queued == 2, "2 should be queued: %+v", later)
			s.giveBack(e, later.Grant)
			units := s.status(e).Units
			s.want(units["a"] == engine.UnitStatus{}, "nothing should be left, and nothing queued: %+v", units)
		},
	},
	{
		name:        "counts no grant that too few replicas have",
		explanation: "If fewer replicas than configured have a grant, Take is ErrNotReplicated.",
		text: func(s *subject) {
			cfg := s.config(engine.Quota{Permits: 1, Per: long})
			cfg.Replicas = 1000
			e, err := s.build(cfg)
			if errors.Is(err, engine.ErrUnsupported) {
				return
			}
			s.ok(err, "build")
			answers, err := e.Take(s.ctx, []engine.Request{now(1)})
			s.want(errors.Is(err, engine.ErrNotReplicated),
				"a grant that 1000 replicas should have: %+v, %v", answers, err)
		},
	},
}
