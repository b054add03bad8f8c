package engines

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

// ahead is how far ahead the deadline of a caller without one lies.
const ahead = 1000 * time.Hour

// notes are who asks, the turns that callers were told, and which of them each
// took. After a turn was missed, callers take each other's.
type notes struct {
	began time.Time
	now   func() time.Duration
	most  time.Duration // how late a turn is still taken

	mu       sync.Mutex
	callers  map[time.Duration]int // by their deadlines, counted from began
	files    map[int]*file
	granted  map[engine.Grant]*grant // those that one question was granted for one slot are alike
	held     []*grant                // neither taken nor missed
	missed   measure.Misses
	lastMiss time.Duration
}

// file is what is noted of a caller that waits.
type file struct {
	first    time.Duration // its first answer
	promised time.Duration // its first turn, at the latest
	newest   *grant
	took     *measure.Turn // nil if it did not sleep for its turn
	swapped  bool          // it took another's
}

// grant is a turn that somebody was told.
type grant struct {
	engine.Grant
	turn measure.Turn
	due  time.Duration
}

func newNotes(now func() time.Duration, most time.Duration) *notes {
	return &notes{
		began: time.Now(), now: now, most: most,
		callers: map[time.Duration]int{}, files: map[int]*file{}, granted: map[engine.Grant]*grant{},
	}
}

// enter gives a caller a deadline that nobody else has.
func (n *notes) enter(caller int, deadline time.Time, impatient bool) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[caller] = &file{}
	at := ahead
	if impatient {
		at = deadline.Sub(n.began)
	}
	for {
		if _, taken := n.callers[at]; !taken {
			n.callers[at] = caller
			return n.began.Add(at)
		}
		at++
	}
}

// leave returns the turn that the caller took. If it took none, it is the last
// that it was told.
func (n *notes) leave(caller int, deadline time.Time) *measure.Turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.callers, deadline.Sub(n.began))
	f := n.files[caller]
	delete(n.files, caller)
	if f.newest == nil {
		return nil
	}
	turn, lost := f.newest.turn, false
	if f.took != nil {
		turn = *f.took
	} else {
		lost = !n.drop(f.newest)
	}
	turn.First = f.first
	if f.swapped || n.lastMiss > f.first && (lost || turn.Due() > f.promised+alike) {
		turn.Promised = f.promised
	}
	return &turn
}

// nobody asks without a name tag.
const nobody = -1

// read says who asks, and returns the requests as they are without name tags.
// All MaxWaits of a question are counted from one moment, which the first
// caller's tag tells.
func (n *notes) read(ctx context.Context, requests []engine.Request) (plain []engine.Request, callers []int) {
	first, _ := ctx.Value(tagged{}).(time.Time)
	moment := first.Sub(n.began) - requests[0].MaxWait
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range requests {
		caller, known := n.callers[moment+r.MaxWait]
		if !known {
			caller = nobody
		}
		if moment+r.MaxWait >= ahead/2 {
			r.MaxWait = engine.Forever
		}
		plain, callers = append(plain, r), append(callers, caller)
	}
	return plain, callers
}

// put notes what a caller was answered.
func (n *notes) put(caller int, answer engine.Answer, turn measure.Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.files[caller]
	if f == nil || answer.Left { // nobody, it has left, or it stands in its flow's line
		return
	}
	if f.first == 0 {
		f.first = turn.Replied
	}
	if !answer.Granted {
		return
	}
	if f.newest == nil {
		f.promised = turn.Replied + turn.Wait
	}
	f.newest = &grant{answer.Grant, turn, turn.Replied + answer.Wait}
	n.granted[answer.Grant] = f.newest
	n.held = append(n.held, f.newest)
	old := func(g *grant) bool { return g.due < turn.Replied-forgotten }
	n.held = slices.DeleteFunc(n.held, old)
	maps.DeleteFunc(n.granted, func(_ engine.Grant, g *grant) bool { return old(g) })
}

const (
	// forgotten is how long after its slot nobody asks any more what became of
	// a turn.
	forgotten = 10 * time.Second

	// alike is how far apart the limiter and these notes see one slot, on a
	// machine that is not busy.
	alike = time.Millisecond
)

// take notes which turn a caller took that slept for it, and when that came.
func (n *notes) take(caller int, grant engine.Grant, at time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.files[caller]
	if f == nil || f.newest == nil {
		return
	}
	took, known := n.granted[grant]
	f.swapped = grant != f.newest.Grant
	if !known || !f.swapped {
		took = f.newest
	}
	turn := took.turn
	turn.Unknown = !known && f.swapped
	if at > took.due+alike || at < turn.Sent+turn.Wait && turn.Unknown {
		turn.Later = at - took.due
	}
	f.took = &turn
	n.drop(took)
}

// miss notes that somebody missed a turn. If no turn of so many permits is
// past by as much as is allowed, it was missed in vain. The limiter may go by an
// answer newer than the turn's, and by then the clocks may have run apart.
func (n *notes) miss(permits int) {
	const rounding, drift = 2 * time.Millisecond, 1000
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.missed.Turns++
	for _, g := range n.held {
		past := g.turn.Sent+g.turn.Wait+n.most <= now+rounding+(now-g.turn.Sent)/drift
		if g.N == permits && past {
			n.lastMiss = now
			n.drop(g)
			return
		}
	}
	n.missed.Groundless++
}

func (n *notes) misses() measure.Misses {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.missed
}

// drop takes out one turn that nobody has taken or missed. It reports whether
// there was one.
func (n *notes) drop(g *grant) bool {
	i := slices.IndexFunc(n.held, func(h *grant) bool { return h.Grant == g.Grant })
	if i >= 0 {
		n.held = slices.Delete(n.held, i, i+1)
	}
	return i >= 0
}
