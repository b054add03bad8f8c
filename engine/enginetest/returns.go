package enginetest

import (
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// What is given back.
var returns = []testCase{
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
}
