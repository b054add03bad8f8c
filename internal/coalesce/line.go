package coalesce

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Line is callers in the order of their calls. An [Asker] has one that is
// common to all callers without a flow, and each flow has its own.
//
// The callers of a flow share what they may hold ahead: permits, from the
// question on, until it ends without a grant, or until whoever was granted them
// calls [Asker.Passed] or lines up again. Only as many callers are asked for as
// the share has room for, and nobody while the ceiling of the flow has none: the
// engine has told until when. Others wait without a question. Callers that accept
// no wait are told at once that there is no room. The common line has room for
// everybody.
//
// Invariant, under mu of the Asker, unless a question for the line is under
// way: it is ready, and among those that are, if its first caller fits. If it is
// not ready, nobody in line accepts no wait. Lined is the sum of the permits of the
// callers in line that may fit, and wanted what all count for in the share.
type Line struct {
	// PutOff is when the callers of the flow were put off last, and PutOffUntil until
	// when. Package turns guards them.
	PutOff, PutOffUntil time.Time

	id        string // of the flow; empty for the common line
	weight    int
	lookAhead int
	ceiling   engine.Ceiling // nil for none

	waiting []*Request
	lined   int
	wanted  int
	ahead   int
	share   int // as the engine told it last, 0 before
	ready   bool
	hasty   bool // some of those waiting may accept no wait

	hold      *time.Timer // ends what holds back the flow, nil if nothing does
	until     time.Time   // when it ends
	noRoomFor int         // so many permits, until then
	paused    bool        // the flow's pause holds it back, not its ceiling
}

// NewLine makes the line of a flow; see [engine.Flow].
func NewLine(id string, weight, lookAhead int) *Line {
	return &Line{id: id, weight: weight, lookAhead: lookAhead}
}

// ID is that of the flow.
func (l *Line) ID() string { return l.id }

func (l *Line) isCommon() bool { return l.id == "" }

// SetFlow changes the weight of a flow from its next question on, and its
// ceiling unless that is nil.
func (a *Asker) SetFlow(l *Line, weight int, ceiling engine.Ceiling) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.weight = weight
	if ceiling != nil {
		l.ceiling = ceiling
	}
}

// Ceiling is that of a flow, nil if it has none.
func (a *Asker) Ceiling(l *Line) engine.Ceiling {
	if l == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return l.ceiling
}

// Passed says that n permits of a flow are not ahead any more: their turn has
// come, or somebody gives them back. A nil line is the common one.
func (a *Asker) Passed(l *Line, n int) {
	if l == nil || l.isCommon() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l.ahead -= n
	a.makeReady(l)
}

// fits, under mu, reports whether the share has room for n permits behind as
// many permits as others ask for. One request always fits, unless the ceiling
// holds back all.
func (l *Line) fits(others, n int) bool {
	if l.hold != nil {
		return false
	}
	held := l.ahead + others
	return l.isCommon() || held == 0 || l.share == 0 && held < mostAsked || held+n <= l.share
}

// makeReady, under mu, has a line served if there is anybody to serve. What
// holds it back is for the first caller, and for those behind that ask for no
// less.
func (a *Asker) makeReady(l *Line) {
	if len(l.waiting) == 0 || !l.paused && l.waiting[0].N < l.noRoomFor {
		a.letGo(l)
	}
	if l.ready || !l.hasRoom() {
		return
	}
	l.ready = true
	a.ready = append(a.ready, l)
	a.startServer()
}

// hasRoom, under mu, reports whether the first caller in line may be asked for.
// If not, nobody who accepts no wait is left in line: a caller that stands
// first and does not fit is told, and so are all behind one that waits.
func (l *Line) hasRoom() bool {
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		switch {
		case l.fits(0, first.inShare()):
			return true
		case first.MaxWait > 0:
			l.dropHasty(noRoom(), nil)
			return false
		}
		l.pop().tellInLine(noRoom(), nil)
	}
	return false
}

// noRoom is what a caller is told that accepts no wait and does not fit.
func noRoom() Reply {
	now := time.Now()
	return Reply{Answer: &engine.Answer{Left: true}, Asked: now, Arrived: now}
}

// dropHasty, under mu, tells callers that accept no wait, wherever they stand,
// and drops them.
func (l *Line) dropHasty(reply Reply, failure error) {
	if !l.hasty {
		return
	}
	l.hasty = false
	l.waiting = slices.DeleteFunc(l.waiting, func(c *Request) bool {
		if c.MaxWait > 0 {
			return false
		}
		c.tellInLine(reply, failure)
		return true
	})
}

func (l *Line) pop() *Request {
	c := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	return c
}

// count, under mu, counts a caller that is in line now.
func (l *Line) count(c *Request) {
	l.lined += c.mayGo()
	l.wanted += c.inShare()
	l.hasty = l.hasty || c.MaxWait <= 0
}

// uncount, under mu, counts a caller no longer.
func (l *Line) uncount(c *Request) {
	l.lined -= c.mayGo()
	l.wanted -= c.inShare()
}

// merge, under mu, puts callers back where they stand in their lines by the order
// of the calls, and returns the lines.
func merge(callers []*Request) map[*Line][]*Request {
	if len(callers) == 0 {
		return nil
	}
	lines := map[*Line][]*Request{}
	for _, c := range callers {
		c.line.count(c)
		lines[c.line] = append(lines[c.line], c)
	}
	for l, there := range lines {
		l.waiting = slices.Concat(there, l.waiting)
		slices.SortFunc(l.waiting, byCall)
	}
	return lines
}

func byCall(a, b *Request) int { return cmp.Compare(a.Call, b.Call) }

// remove, under mu, takes a caller out of the line.
func (l *Line) remove(c *Request) {
	at, _ := slices.BinarySearchFunc(l.waiting, c, byCall)
	l.waiting = slices.Delete(l.waiting, at, at+1)
	l.uncount(c)
}

// askFor, under mu, moves callers of the line to a question, as many as have
// room.
func (l *Line) askFor(q *question) {
	var asks *engine.Flow
	if !l.isCommon() {
		asks = &engine.Flow{
			ID: l.id, Weight: l.weight, LookAhead: l.lookAhead, Ahead: l.ahead, Wanted: l.ahead + l.wanted,
			Ceiling: l.ceiling,
		}
	}
	for len(q.callers) < q.most && l.hasRoom() {
		c := l.pop()
		c.state.Store(asked)
		c.asks = asks
		l.uncount(c)
		l.ahead += c.inShare()
		q.callers = append(q.callers, c)
	}
}
