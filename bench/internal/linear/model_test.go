// Package linear checks histories of concurrent calls of an engine: whether
// there is an order of all calls, each at one moment between its beginning and
// its end, in which every answer is the one that the definition of the queue
// demands. The definition is that of internal/model; the checker is porcupine.
package linear

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// All moments are microseconds on the queue's clock.

// state is a queue: what is held, in order, and a moment before which nothing
// happens any more. It is never changed.
type state struct {
	now  int64
	held []model.Turn
}

// What is asked, and what is answered. A call of unknown outcome has happened
// once or not at all, at any time after it began.
type (
	take    []engine.Request
	back    struct{ engine.Grant }
	answers []engine.Answer
	done    struct{}
	unknown struct{}
)

// checked is the definition for porcupine. A call of Take whose outcome is
// unknown is taken to be answered by the backlog: it must not be the moment at
// which it runs that decides its slot, so where such calls are lost, the queue
// has to be longer than the history.
func checked(windows []model.Window) porcupine.Model {
	queue := definition{windows, model.Longest(windows)}
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(before, input, output any) (after []any) {
			for _, s := range queue.step(before.(state), input, output) {
				after = append(after, s)
			}
			return after
		},
		Equal: func(a, b any) bool {
			return a.(state).now == b.(state).now && slices.Equal(a.(state).held, b.(state).held)
		},
	}
	return m.ToModel()
}

type definition struct {
	windows []model.Window
	longest int64
}

// step returns the states in which the queue may be once the call has been
// answered so; none if it cannot be.
func (d definition) step(s state, input, output any) []state {
	_, lost := output.(unknown)
	switch in := input.(type) {
	case back:
		after := d.giveBack(s, in.Grant)
		if lost {
			after = append(after, s)
		}
		return after
	case take:
		if lost {
			return append(d.lost(s, in, math.MaxInt64), s)
		}
		return d.take(s, in, output.(answers))
	}
	panic(fmt.Sprintf("linear: %T is no call", input))
}

// take runs the requests one after the other, at one moment.
func (d definition) take(s state, requests take, told answers) []state {
	if len(told) < 1 || len(told) > len(requests) {
		return nil
	}
	now, known := int64(0), false
	for i, a := range told {
		r := requests[i]
		x := model.Earliest(d.windows, s.held, r.N)
		wait := a.Wait.Microseconds()
		if a.Granted {
			x = max(x, a.Grant.At-wait)
		}
		if ran := x - wait; !known {
			now, known = ran, true
		} else if ran != now {
			return nil
		}
		if now < s.now || a.Granted != (x-now <= r.MaxWait.Microseconds()) {
			return nil
		}
		if a.Granted {
			if a.Grant.At != x || a.Grant.N != r.N {
				return nil
			}
			s = d.hold(s, now, model.Turn{Slot: x, N: r.N})
		}
	}
	return []state{d.hold(s, now)}
}

// lost is what requests may have done that were run before the given moment and
// whose answers nobody has seen: the first of them is granted or refused, and
// so are the others, or those behind it are left for another question, which
// never came.
func (d definition) lost(s state, requests take, before int64) (after []state) {
	if len(requests) == 0 {
		return nil
	}
	x := model.Earliest(d.windows, s.held, requests[0].N)
	longest := requests[0].MaxWait.Microseconds()
	if from := max(s.now, x-longest); from < before && from <= x {
		granted := d.hold(s, from, model.Turn{Slot: x, N: requests[0].N})
		after = append(append(after, granted), d.lost(granted, requests[1:], before)...)
	}
	if refused := min(before, x-longest); s.now < refused {
		after = append(append(after, s), d.lost(s, requests[1:], refused)...)
	}
	return after
}

// giveBack frees a turn while it lies ahead, and one that nobody has gone with
// at any time. When it was run is not known.
func (d definition) giveBack(s state, g engine.Grant) []state {
	at := slices.Index(s.held, model.Turn{Slot: g.At, N: g.N})
	if at < 0 || !g.Unused && g.At <= s.now {
		return []state{s}
	}
	freed := state{s.now, slices.Delete(slices.Clone(s.held), at, at+1)}
	if g.Unused {
		return []state{freed}
	}
	return []state{freed, d.hold(s, g.At)}
}

// hold adds turns, and forgets those that have left every window.
func (d definition) hold(s state, now int64, more ...model.Turn) state {
	passed := 0
	for passed < len(s.held) && s.held[passed].Slot+d.longest <= now {
		passed++
	}
	return state{max(s.now, now), slices.Concat(s.held[passed:], more)}
}
