// Package turns holds callers until their turns come.
package turns

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

var (
	// ErrVoid says that the turn was made void, and that it is time to ask again.
	ErrVoid = errors.New("the turn was made void")

	// ErrTooLate says that the turn comes later than its caller accepts.
	ErrTooLate = errors.New("the turn comes too late")
)

// drift is by how much the clocks of a client and a server may run apart, as a
// part of the time: 1/drift.
const drift = 1000

// Sleepers are the callers of a limiter that wait for their turns. While somebody
// sleeps, and no answer has brought news for half of [engine.Within], one look
// asks for them. So whoever goes has heard what happened until Within before.
//
// Invariant, under mu: while somebody sleeps the timer is set, or a look is under
// way and will set it.
type Sleepers struct {
	Look     func(context.Context) (engine.News, error) // nil if turns never lie ahead
	Patience time.Duration                              // for an answer

	mu       sync.Mutex
	news     engine.News   // the newest
	zero     time.Time     // when label 0 of the queue's clock came
	changed  chan struct{} // closed when turns may have become void, or come at another time
	sleeping int
	timer    *time.Timer
}

// Hear takes in the news of an answer.
//
// Each answer gives an upper bound of the moment at which label 0 came: it is late by
// its way back. The lowest bound holds. It may rise by drift, and rises if an answer
// proves it too low, as after the server's clock was set back.
func (s *Sleepers) Hear(n *engine.News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Queue == 0 || n.Sent.Before(s.news.Sent) {
		return
	}
	zero, sameClock := n.Comes(0), n.Queue == s.news.Queue && n.Offset == s.news.Offset
	known := s.zero.Add(n.Arrived.Sub(s.news.Arrived) / drift)
	if earliest := zero.Add(n.Sent.Sub(n.Arrived)); sameClock && zero.After(known) {
		zero = later(known, earliest)
	}
	changes := n.Void != s.news.Void || n.Offset != s.news.Offset
	s.news, s.zero = *n, zero
	if changes && s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Due is when a turn comes by the newest news, and whether it stands. A requeue
// leaves the clock as it is. A turn of a lost queue keeps the time of the answer that
// granted it.
func (s *Sleepers) Due(t engine.Turn, granted *engine.News) (due time.Time, stands bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due(t, granted), s.news.Stands(t)
}

func (s *Sleepers) due(t engine.Turn, granted *engine.News) time.Time {
	if s.news.Queue == t.Queue || s.news.Void > 0 {
		return s.zero.Add(time.Duration(t.Slot) * time.Microsecond)
	}
	return granted.Comes(t.Slot)
}

// Confirmed reports whether the newest news are not older than [engine.Within].
func (s *Sleepers) Confirmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.news.Sent) <= engine.Within
}

// Paused is how much longer the clock stands still, by the newest news.
func (s *Sleepers) Paused() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.news.Paused-time.Since(s.news.Arrived))
}

// Sleep returns once the turn has come, and when that was. Latest is the last
// moment that the caller accepts, zero for any. The error is [ErrVoid],
// [ErrTooLate] or ctx's.
func (s *Sleepers) Sleep(
	ctx context.Context, t engine.Turn, granted *engine.News, latest time.Time,
) (time.Time, error) {
	if due, stands := s.Due(t, granted); stands && time.Until(due) <= 0 {
		return due, nil
	}
	s.enter()
	defer s.leave()
	for {
		due, void, changed := s.next(t, granted)
		switch {
		case void && clock.SleepUntil(ctx, due) == nil:
			return due, ErrVoid
		case void:
			return due, ctx.Err()
		case !latest.IsZero() && due.After(latest):
			return due, ErrTooLate
		case time.Until(due) <= 0:
			return due, nil
		}
		if err := clock.NapUntil(ctx, due, changed); err != nil {
			return due, err
		}
	}
}

// next is when a turn comes, or if it is void when its caller asks again, and what
// is closed if that changes.
func (s *Sleepers) next(t engine.Turn, granted *engine.News) (due time.Time, void bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	if !s.news.Stands(t) {
		return s.asksAgain(t), true, nil
	}
	return s.due(t, granted), false, s.changed
}

// asksAgain, under mu, is when everybody has heard of the requeue, and a little
// later the further ahead the turn was. So all ask again in the order of their
// slots. For a turn a seconds ahead, the little is half × a / (a + 10): it grows with
// a and stays below half, because nobody knows the largest a.
func (s *Sleepers) asksAgain(t engine.Turn) time.Time {
	const half = engine.Within / 2
	ahead := float64(t.Slot-s.news.Void) / 1e6
	requeued := s.news.Arrived.Add(time.Duration(s.news.Queue-s.news.Now) * time.Microsecond)
	return requeued.Add(half + time.Duration(float64(half)*ahead/(ahead+10)))
}

func (s *Sleepers) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleeping++; s.sleeping == 1 {
		s.setTimer(time.Until(s.news.Sent.Add(engine.Within / 2)))
	}
}

func (s *Sleepers) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleeping--; s.sleeping == 0 {
		s.timer.Stop()
	}
}

// setTimer, under mu, lets look run after d.
func (s *Sleepers) setTimer(d time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.look)
	} else {
		s.timer.Reset(d)
	}
}

// look asks for news if the newest are old. If Redis is silent, turns stand as
// they were told.
func (s *Sleepers) look() {
	s.mu.Lock()
	wait, awake := time.Until(s.news.Sent.Add(engine.Within/2)), s.sleeping == 0
	s.mu.Unlock()
	if awake {
		return
	}
	if wait <= 0 {
		n, err := timeout.Call(context.Background(), s.Patience, s.Look)
		if wait = engine.Within / 4; err == nil && n.Queue != 0 {
			s.Hear(&n)
			wait = engine.Within / 2
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleeping > 0 {
		s.setTimer(wait)
	}
}
