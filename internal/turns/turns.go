// Package turns holds the callers of one limiter that sleep towards their
// turns, and sees to it that nobody goes on an old promise.
//
// A turn is promised once. Until it comes, the queue may be paused or reset,
// and the process may stand still until the turn is long past. So [Sleepers]
// keeps the newest news of the queue that any answer brought. If these would be
// older than [Sleepers].Within at a turn, its caller wakes early, and one
// goroutine looks for all sleepers, unless newer news are there or on their way.
// A caller that wakes too late for the look waits for its answer, but not for long.
// After a pause a caller does not go at all without news.
//
// No turn comes sooner than was told, and callers for equally many permits go
// in the order of their calls. If the server loses the queue, and others begin
// another, turns of before go when they were told. If the clock of the new queue
// stands still or is slow then, they are missed.
//
// # What becomes of a caller that sleeps
//
//	asleep ──▶ gone           its turn has come, its ctx has ended, or the turn
//	   │                      would come too late
//	   ▼
//	inLine                    it stands in a line of package coalesce once more:
//	                          its queue was reset, or its turn was missed
//
// Under mu, whoever moves a caller out of asleep takes it out of the sleepers.
// The caller may find when it wakes that another caller has moved it.
package turns

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
)

// mostMissed is how many turns in a row one caller may miss.
const mostMissed = 10

// ErrMissed is the error of a caller that missed turn after turn.
var ErrMissed = fmt.Errorf(
	"fairlimit: missed %d turns in a row: this process wakes later than WithMaxLateness allows, "+
		"or Redis was silent after a pause", mostMissed)

// Refusal says that a turn comes too late by now.
type Refusal struct {
	Wait   time.Duration
	Paused bool // because of a pause: without it the turn would come in time
}

func (r *Refusal) Error() string { return fmt.Sprintf("the turn would come in %v", r.Wait) }

// Sleepers are the callers of one limiter that sleep. The exported fields are
// set once, before the first call. Without callers it holds no goroutine and no
// timer.
//
// Invariant, under mu: sleepers has the callers in state asleep, by the slots
// of their turns, and by their calls where turns share a slot. Changed is
// closed, and made anew, whenever one of them may have to do something other
// than next told it last.
type Sleepers struct {
	// Within is how old news may be when a turn is taken on it. 0 takes every
	// turn on the answer that granted it, unless its queue was reset.
	Within time.Duration

	// MaxLateness is how long after its slot a turn is still taken, 0 for any
	// time.
	MaxLateness time.Duration

	// Asker lines callers up again, and gives back.
	Asker *coalesce.Asker

	// Look asks for news. What it learns comes through Hear.
	Look func(context.Context) error

	// Missed and Taken are told what became of a turn, under mu. They may be nil.
	Missed func(permits int, lateness time.Duration)
	Taken  func(permits int, lateness time.Duration, confirmed bool)

	mu       sync.Mutex
	sleepers []*Sleeper
	mixed    bool          // they may have turns of several queues, on several clocks
	changed  chan struct{} // nil while nobody sleeps or waits for the end of a hold

	news   engine.News // the newest that told when turns come; see Hear
	before engine.News // the newest of the queue before

	resetQueue string    // the queue that follows the newest reset
	resetHeard time.Time // turns of before in other queues are void

	newest   time.Time // when the question went that brought the newest news
	recent   recent
	lastLook look
	newsCame chan struct{} // closed when news come; nil while nobody waits for news

	heldBy []hold // each was said later than the one before it, and ends sooner

	woke func() // tests let the process stand still here; else nil
}

// MayGo reports whether a caller whose turn is due at once may take it. It may not
// if its question went longer ago than Within, if the turn is void, and if a
// caller of the same line that called earlier for as many permits sleeps: that goes
// first. The caller then has to call [Sleepers.Sleep], or gives its turn back.
func (l *Sleepers) MayGo(r *coalesce.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	goesFirst := func(s *Sleeper) bool { return s.request.Call < r.Call && s.matches(r) && s.due.After(now) }
	if slices.ContainsFunc(l.sleepers, goesFirst) || l.anEarlierMissed(r, now) {
		return false
	}
	if l.isVoid(r.Reply.Grant.ID, r.Reply.Asked) || isPutOff(r) {
		return false
	}
	lateness := now.Sub(r.Reply.Slot()) + l.excess(r.Reply.Took())
	if now.Before(l.held().until) || l.tooLate(lateness) || l.Within > 0 && now.Sub(r.Reply.Asked) > l.Within {
		return false
	}
	if l.Taken != nil {
		l.Taken(r.N, lateness, true)
	}
	return true
}

func (l *Sleepers) tooLate(lateness time.Duration) bool {
	return l.MaxLateness > 0 && lateness > l.MaxLateness
}

// change, under mu, tells sleepers to ask next again.
func (l *Sleepers) change() {
	l.tellAwaiting()
	if l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// join, under mu, puts a caller among the sleepers.
func (l *Sleepers) join(s *Sleeper) {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	at := len(l.sleepers)
	for at > 0 && order(l.sleepers[at-1], s) > 0 {
		at--
	}
	l.mixed = len(l.sleepers) > 0 && (l.mixed || s.grant.ID != l.sleepers[0].grant.ID)
	l.sleepers = slices.Insert(l.sleepers, at, s)
	s.state = asleep
}

// quit, under mu, takes a caller out of the sleepers.
func (l *Sleepers) quit(s *Sleeper, state state) {
	at, _ := slices.BinarySearchFunc(l.sleepers, s, order)
	l.drop(at)
	s.state = state
}

// drop, under mu, is cheap for the first sleeper, which quits most often.
func (l *Sleepers) drop(at int) {
	if at == 0 {
		l.sleepers[0] = nil
		l.sleepers = l.sleepers[1:]
	} else {
		l.sleepers = slices.Delete(l.sleepers, at, at+1)
	}
	if len(l.sleepers) == 0 {
		close(l.changed) // another caller may have taken the last one out
		l.sleepers, l.changed = nil, nil
	}
}
