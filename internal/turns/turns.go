// Package turns holds the callers of one limiter that sleep towards their
// turns, and sees to it that nobody goes on an old promise.
//
// A turn is promised once. Until it comes, the queue may be paused or reset,
// and the process may stand still until the turn is long past. So a [Line]
// keeps the newest news of the queue that any answer brought. A caller whose own
// answer would be older than [Line].Within at its turn wakes a quarter of that
// early. Unless newer news is there by then, or on its way, one goroutine looks
// for all callers of the line. A caller that wakes too late for that waits for
// the look before it goes, but not for long. After a pause it does not go at all
// unless it hears.
//
// No turn comes sooner than was told, and callers for equally many permits go in
// the order of their calls. If the server loses the queue, the clock of its
// successor goes on, so that its news move the turns that were lost, too.
//
// # What becomes of a caller that sleeps
//
//	asleep ──▶ gone           its turn has come, its ctx has ended, or the turn
//	   │                      would come too late
//	   ▼
//	 again                    it stands in the line of package batch once more:
//	                          its queue was reset, or its turn was missed
//
// Under mu, whoever moves a caller out of asleep takes it out of the line. The
// caller itself may find at its next look that somebody has moved it.
package turns

import (
	"cmp"
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
	"fairlimit: missed %d turns in a row: this process wakes later than WithMaxLateness allows", mostMissed)

// Refusal says that a turn comes too late by now.
type Refusal struct {
	Wait   time.Duration
	Paused bool // because of a pause
}

func (r *Refusal) Error() string { return fmt.Sprintf("the turn would come in %v", r.Wait) }

// Kept is the turn of a caller that left before it came, by a cause of
// [coalesce.Keep]. Nobody goes with it, and it is not given back.
type Kept struct {
	Grant engine.Grant
	Slot  time.Time
}

func (*Kept) Error() string { return "left before the turn came, and keeps it" }

// Line is the callers of one limiter that sleep. Its exported fields are set
// once, before the first call. An idle one holds no goroutine and no timer.
//
// Invariant, under mu: sleepers are those asleep, by the slots of their turns, and
// by their calls where they share one.
// Changed is closed, and made anew, whenever one of them may have to do
// something other than it was told when it last looked.
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

	// Missed and Taken are told what became of a turn. They may be nil.
	Missed func(permits int, lateness time.Duration)
	Taken  func(permits int, lateness time.Duration, confirmed bool)

	mu       sync.Mutex
	sleepers []*Sleeper
	changed  chan struct{} // nil while nobody sleeps

	news     engine.News   // the estimate to sleep by; see Hear
	newest   time.Time     // when the question went that brought the newest news
	looked   time.Time     // when the newest look went,
	before   time.Time     // and the one before it,
	patience time.Time     // and until when callers wait for the newest
	looking  int           // how many looks are under way
	waiting  chan struct{} // nil while nobody waits for news
	epoch    int           // counts the changes that those asleep have to hear of
	quickest time.Duration // what an answer takes at best
	later    uint64        // up to this call turns may come later than others of later slots

	held   time.Time // nobody goes before
	heldAt time.Time // when that was said last

	holdChanged chan struct{} // nil while nobody waits for held to change

	woke func() // tests let the process stand still here; else nil
}

// Hold lets nobody go before a moment, whatever Redis says. If Within is 0, those
// who sleep towards a turn go all the same.
func (l *Sleepers) Hold(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold(until, time.Now())
}

// hold, under mu, is Hold as of a moment.
func (l *Sleepers) hold(until, at time.Time) {
	switch {
	case until.After(l.held):
		l.held, l.heldAt = until, at
		l.changeHold()
	case until.Equal(l.held):
		l.heldAt = later(l.heldAt, at)
	}
}

// Free ends what Hold began before the queue was asked to reset, and reports
// whether nobody is held any more. A hold that began later stays: it is not known
// which of the two came first. Those asleep may have to look for news sooner than
// they would have had to.
func (l *Sleepers) Free(asked time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.heldAt.After(asked) {
		l.free()
	}
	return l.heldFor() == 0
}

// free, under mu, is Free of whatever holds.
func (l *Sleepers) free() {
	if !l.held.IsZero() {
		l.held = time.Time{}
		l.changeHold()
	}
}

// changeHold, under mu, tells those asleep, and those who wait elsewhere.
func (l *Sleepers) changeHold() {
	l.change()
	if l.holdChanged != nil {
		close(l.holdChanged)
		l.holdChanged = nil
	}
}

// holdsAsleep, under mu, is up to when those asleep are held.
func (l *Sleepers) holdsAsleep() time.Time {
	if l.Within == 0 {
		return time.Time{}
	}
	return l.held
}

// heldFor, under mu, is for how much longer nobody goes.
func (l *Sleepers) heldFor() time.Duration {
	if l.held.IsZero() {
		return 0
	}
	return max(0, time.Until(l.held))
}

// Held returns for how much longer nobody goes, and a channel that closes when
// this changes.
func (l *Sleepers) Held() (left time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left = l.heldFor(); left > 0 && l.holdChanged == nil {
		l.holdChanged = make(chan struct{})
	}
	return left, l.holdChanged
}

// Stale reports whether what is known of the queue, and of the moment up to
// which nobody goes, is so old that somebody may have reset it since.
func (l *Sleepers) Stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(later(l.newest, l.heldAt)) > l.Within
}

// IsNew reports whether a reply was on its way for no longer than news is good.
// The caller of an older one is to [Line.Sleep], even if its turn is due.
func (l *Sleepers) IsNew(reply coalesce.Reply) bool {
	return l.Within == 0 || reply.Arrived.Sub(reply.Asked) <= l.Within
}

// MayGo reports whether a turn of a flow that is due at once may be taken. Those
// who called before and sleep go before.
func (l *Sleepers) MayGo(reply coalesce.Reply, line *coalesce.Line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.IsZero() && l.MaxLateness == 0 && l.Taken == nil && len(l.sleepers) == 0 {
		return true
	}
	now := time.Now()
	if slices.ContainsFunc(l.sleepers, func(s *Sleeper) bool {
		return s.wants(reply.Grant.N, line) && s.due.After(now)
	}) {
		return false
	}
	lateness := now.Sub(reply.Slot()) + l.excess(reply.Arrived.Sub(reply.Asked))
	if now.Before(l.held) || l.tooLate(lateness) {
		return false
	}
	if l.Taken != nil {
		l.Taken(reply.Grant.N, lateness, true)
	}
	return true
}

func (l *Sleepers) tooLate(lateness time.Duration) bool {
	return l.MaxLateness > 0 && lateness > l.MaxLateness
}

// excess, under mu, is how much longer an answer took than the quickest do. It
// counts as lateness: the turn may have come while the answer was on its way.
// What every answer takes does not count, since a guard is there for delays
// that differ.
func (l *Sleepers) excess(took time.Duration) time.Duration {
	if l.quickest == 0 {
		return 0
	}
	return max(0, took-l.quickest)
}

// change, under mu, tells those asleep to look again.
func (l *Sleepers) change() {
	l.epoch++
	if l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.tellWaiting()
}

// order is that of those asleep.
func order(a, b *Sleeper) int {
	return cmp.Or(cmp.Compare(a.grant.At, b.grant.At), cmp.Compare(a.call, b.call))
}

// join, under mu, puts a caller among those asleep.
func (l *Sleepers) join(s *Sleeper) {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	at := len(l.sleepers)
	for at > 0 && order(l.sleepers[at-1], s) > 0 {
		at--
	}
	l.noteOrder(s, at)
	l.sleepers = slices.Insert(l.sleepers, at, s)
	s.state = asleep
}

// noteOrder, under mu, notes that a caller which joins there has a later turn than
// somebody who called after it, or makes somebody else have one.
func (l *Sleepers) noteOrder(s *Sleeper, at int) {
	if at > 0 {
		before := l.sleepers[at-1]
		if before.due.Sub(s.due) > time.Millisecond { // two answers tell of one slot a little differently
			l.later = max(l.later, before.call)
		}
		if before.call > s.call && before.matches(s) {
			l.later = max(l.later, s.call)
		}
	}
	if at < len(l.sleepers) && l.sleepers[at].call < s.call && l.sleepers[at].matches(s) {
		l.later = max(l.later, l.sleepers[at].call)
	}
}

// quit, under mu, takes a caller out of those asleep.
func (l *Sleepers) quit(s *Sleeper, state state) {
	at, _ := slices.BinarySearchFunc(l.sleepers, s, order)
	l.drop(at)
	s.state = state
}

// drop, under mu, is cheap for the first, which most are.
func (l *Sleepers) drop(at int) {
	if at == 0 {
		l.sleepers[0] = nil
		l.sleepers = l.sleepers[1:]
	} else {
		l.sleepers = slices.Delete(l.sleepers, at, at+1)
	}
	if len(l.sleepers) == 0 {
		close(l.changed) // somebody else may have taken them out
		l.tellWaiting()
		l.sleepers, l.changed = nil, nil
	}
}
