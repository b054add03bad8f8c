package turns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// reservation begins to sleep now with a turn that was granted before.
func reservation(t *testing.T, l *Sleepers, asked time.Time, g engine.Grant, line *coalesce.Line) (*Sleeper, state) {
	s := NewSleeper(&coalesce.Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever, Line: line})
	s.request.Reply = coalesce.Reply{Answer: &engine.Answer{Grant: g, Wait: second}, Asked: asked, Arrived: asked}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(s)
	return s, s.state
}

// It was put off, its queue may be lost as well, and only then its caller begins to
// wait.
func TestAReservationComesAsItsLimiterWasToldLast(t *testing.T) {
	for _, next := range []string{"before", "next"} {
		inBubble(t, second, 0, func(t *testing.T, _ *queue, l *Sleepers) {
			start := time.Now()
			long := 10 * second
			for i, n := range []engine.News{{Queue: "before"}, {Queue: "before", Stands: long}, {Queue: next, Stands: long}} {
				time.Sleep(time.Millisecond)
				n.Asked, n.Arrived, n.Server, n.Clock = time.Now(), time.Now(), int64(i+1), 1
				l.Hear(&n)
			}
			s, _ := reservation(t, l, start, engine.Grant{ID: "before", At: second.Microseconds() + 1}, nil)
			l.next(s)
			assert.InDelta(t, 11*second, s.due.Sub(start), float64(3*time.Millisecond))
		})
	}
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
		due := &coalesce.Request{Ctx: t.Context(), N: 1}
		due.Reply = coalesce.Reply{Answer: &engine.Answer{Grant: engine.Grant{ID: "before"}}, Asked: start}
		assert.False(t, l.MayGo(due), "its answer was on the way")
		_, is := reservation(t, l, start, engine.Grant{ID: "reset", At: 1}, nil)
		assert.Equal(t, asleep, is, "its answer told of the reset")
		_, is = reservation(t, l, start, engine.Grant{ID: "next", At: 1}, nil)
		assert.Equal(t, asleep, is)
		_, is = reservation(t, l, start, engine.Grant{ID: "before", At: 1}, nil)
		assert.Equal(t, inLine, is) // it asks, which brings other news
	})
}

func TestAPauseOfAFlowPutsOffReservationsOfBefore(t *testing.T) {
	inBubble(t, second, 0, func(t *testing.T, _ *queue, l *Sleepers) {
		flow, start := coalesce.NewLine("a", 1, 8), time.Now()
		time.Sleep(time.Millisecond)
		l.PutOff(flow, second)
		_, is := reservation(t, l, start, engine.Grant{At: 1}, flow)
		assert.Equal(t, inLine, is)
		_, is = reservation(t, l, start, engine.Grant{At: 1}, nil)
		assert.Equal(t, asleep, is)
		_, is = reservation(t, l, time.Now(), engine.Grant{At: 1}, flow)
		assert.Equal(t, asleep, is)
		due := &coalesce.Request{Ctx: t.Context(), N: 1, Line: flow}
		due.Reply = coalesce.Reply{Answer: &engine.Answer{}, Asked: start}
		assert.False(t, l.MayGo(due), "its answer was on the way")
	})
}

// It was due at once. Its caller begins to wait when the news are old, and
// others have paused the queue.
func TestAReservationThatWasDueIsNotTakenOnOldNews(t *testing.T) {
	inBubble(t, 100*time.Millisecond, 0, func(t *testing.T, q *queue, l *Sleepers) {
		start, r := time.Now(), asksNow(t, l, 0)
		assert.Zero(t, r.Reply.Wait)
		time.Sleep(100 * time.Millisecond)
		q.pause(5 * second)
		time.Sleep(2 * second)
		assert.False(t, l.MayGo(r))
		again, err := l.Sleep(NewSleeper(r))
		assert.NoError(t, err)
		assert.True(t, again || time.Since(start) > 5*second, "it is held, or lines up again")
	})
}
