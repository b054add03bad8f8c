package engines

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
	"github.com/fairlimit/fairlimit/engine"
)

// ahead is how far ahead the deadline of a caller without one lies.
const ahead = 1000 * time.Hour

// notes are who asks, the turns that callers were told, and which of them each
// took. After a turn was missed, callers take each other's: then a turn is known
// by its slot.
type notes struct {
	began time.Time
	now   func() time.Duration
	most  time.Duration // how late a turn is still taken

	requoted bool // the quota may become wider, and turns come sooner

	mu       sync.Mutex
	callers  map[time.Duration]int // by their deadlines, counted from began
	files    map[int]*file
	held     []*grant // neither taken nor missed
	missed   metrics.Misses
	lastMiss time.Duration
}

// file is what is noted of a caller that waits.
type file struct {
	first    time.Duration // its first answer
	promised time.Duration // its first turn, at the latest
	newest   *grant
	took     *metrics.Turn // nil if it did not sleep for its turn
}

// grant is a turn that somebody was told.
type grant struct {
	permits int
	turn    metrics.Turn
	due     time.Duration
}

func newNotes(now func() time.Duration, most time.Duration) *notes {
	return &notes{began: time.Now(), now: now, most: most, callers: map[time.Duration]int{}, files: map[int]*file{}}
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
func (n *notes) leave(caller int, deadline time.Time) *metrics.Turn {
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
	if n.lastMiss > f.first && (lost || turn.Due() > f.promised+alike) {
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
func (n *notes) put(caller, permits int, answer engine.Answer, turn metrics.Turn) {
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
	f.newest = &grant{permits, turn, turn.Replied + answer.Wait}
	n.held = append(n.held, f.newest)
	n.held = slices.DeleteFunc(n.held, func(g *grant) bool { return g.due < turn.Replied-forgotten })
}

const (
	// forgotten is how long after its slot nobody asks any more what became of
	// a turn.
	forgotten = 10 * time.Second

	// alike is how far apart the limiter and these notes see one slot, on a
	// machine that is not busy.
	alike = time.Millisecond
)

// take notes which turn a caller took that slept for it: that of this moment. No
// two callers take one turn: the second of them took another, and which is not
// known.
func (n *notes) take(caller int, at time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.files[caller]
	if f == nil || f.newest == nil {
		return
	}
	took := n.comesAt(f.newest, at)
	turn, held := took.turn, n.drop(took)
	if !took.comes(at) || !held && n.mayBeAnothers(at) {
		turn.Unknown = n.mayBeAnothers(at)
		if at > took.due || n.requoted || turn.Unknown {
			turn.Later = at - took.due
		}
	}
	f.took = &turn
}

// comes reports whether the turn comes at a moment, for all that its answer
// tells.
func (g *grant) comes(at time.Duration) bool {
	return at >= g.turn.Sent+g.turn.Wait && at <= g.due+alike
}

// mayBeAnothers reports whether a turn was missed of late: since then callers
// take each other's.
func (n *notes) mayBeAnothers(at time.Duration) bool {
	return n.lastMiss > 0 && n.lastMiss >= at-forgotten
}

// comesAt is the caller's own turn, unless it is gone or does not come at that
// moment, and another's does that it may have taken: since one was missed of late, callers
// who lined up again go before those who came after them.
func (n *notes) comesAt(own *grant, at time.Duration) *grant {
	if own.comes(at) && slices.Contains(n.held, own) || !n.mayBeAnothers(at) {
		return own
	}
	for _, g := range n.held {
		if g.permits == own.permits && g.comes(at) {
			return g
		}
	}
	return own
}

// miss notes that somebody missed a turn. If no turn of so many permits is
// past by as much as is allowed, it was missed in vain. Where the quota may
// become wider, turns come sooner than was answered, so nobody can say.
func (n *notes) miss(permits int) {
	const rounding = 2 * time.Millisecond
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.missed.Turns++
	for _, g := range n.held {
		past := g.turn.Sent+g.turn.Wait+n.most <= now+rounding
		if g.permits == permits && (past || n.requoted) {
			n.lastMiss = now
			n.drop(g)
			return
		}
	}
	n.missed.Groundless++
}

func (n *notes) misses() metrics.Misses {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.missed
}

// drop reports whether the turn was there: nobody had taken or missed it.
func (n *notes) drop(g *grant) bool {
	i := slices.Index(n.held, g)
	if i >= 0 {
		n.held = slices.Delete(n.held, i, i+1)
	}
	return i >= 0
}
