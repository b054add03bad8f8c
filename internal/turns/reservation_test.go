package turns

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// reservation begins to sleep now with a turn that was granted before.
func reservation(t *testing.T, l *Sleepers, asked time.Time, g engine.Grant, line *coalesce.Line) *Sleeper {
	s := NewSleeper(&coalesce.Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever, Line: line})
	s.request.Reply = coalesce.Reply{Answer: &engine.Answer{Grant: g, Wait: second}, Asked: asked, Arrived: asked}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(s)
	return s
}

// The clock of the queue before was slow: two turns a second of it are 10 s apart.
func TestLostTurnsStayAsFarApartOnAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, moves := range []int64{0, 7} {
			l, apart, start := newQueue(second).line(second, 0), second.Microseconds(), time.Now()
			hear := func(n engine.News) {
				time.Sleep(time.Millisecond)
				n.Asked, n.Arrived, n.Server = time.Now(), time.Now(), l.news.Server+1
				l.Hear(&n)
			}
			hear(engine.News{Queue: "before", Clock: 1, Slow: []engine.Stretch{{Until: 10 * apart, Pace: 10_000_000}}})
			one := reservation(t, l, start, engine.Grant{ID: "before", At: 5 * apart}, nil)
			hear(engine.News{Queue: "next", Clock: 1, Moves: moves})
			hear(engine.News{Queue: "next", Clock: 2})
			two := reservation(t, l, start, engine.Grant{ID: "before", At: 6 * apart}, nil) // has waited for its caller
			assert.Equal(t, 10*apart, two.at-one.at, moves)
			assert.Equal(t, "next", two.queue)
		}
	})
}

// The queue that follows the reset is lost, and others begin another one.
func TestATurnOfBeforeAResetStaysVoid(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, _ *queue, l *Sleepers) {
		start := time.Now()
		for i, n := range []engine.News{{Queue: "before"}, {Queue: "reset", Reset: true}, {Queue: "next"}} {
			time.Sleep(time.Millisecond)
			n.Asked, n.Arrived, n.Server = time.Now(), time.Now(), int64(i+1)
			l.Hear(&n)
		}
		for queue, is := range map[string]state{"before": inLine, "reset": asleep, "next": asleep} {
			assert.Equal(t, is, reservation(t, l, start, engine.Grant{ID: queue, At: 1}, nil).state, queue)
		}
	})
}

func TestAPauseOfAFlowPutsOffReservationsOfBefore(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, _ *queue, l *Sleepers) {
		flow, start := coalesce.NewLine("a", 1, 8), time.Now()
		time.Sleep(time.Millisecond)
		l.PutOff(flow)
		assert.Equal(t, inLine, reservation(t, l, start, engine.Grant{At: 1}, flow).state)
		assert.Equal(t, asleep, reservation(t, l, start, engine.Grant{At: 1}, nil).state)
		assert.Equal(t, asleep, reservation(t, l, time.Now(), engine.Grant{At: 1}, flow).state)
		due := &coalesce.Request{Ctx: t.Context(), N: 1, Line: flow}
		due.Reply = coalesce.Reply{Answer: &engine.Answer{}, Asked: start, Arrived: time.Now()}
		assert.False(t, l.MayGo(due), "its answer was on the way")
	})
}
