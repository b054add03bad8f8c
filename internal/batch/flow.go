package batch

import (
	"runtime"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// mostFlows bounds how many flows one question is for.
const mostFlows = 100

// Flow is a line of its own, of callers that share what they may hold ahead.
// Only so many of them are asked for as their share has room for; the others
// wait, without a question, until one of the turns passes. Those that accept no
// wait are told at once that there is no room.
//
// A caller holds its permits ahead from the question on, until the question
// ends without a grant, or until whoever was granted them calls
// [Batcher.Passed] or lines up again.
//
// Invariant, under mu of its Batcher, unless a question for it is under way: it
// is ready, and among those that are, if its first caller that is not gone
// fits. If it is not ready, nobody in line accepts no wait. Lined is the sum of
// the permits of those in line that are not gone.
type Flow struct {
	id        string
	weight    int
	lookAhead int

	waiting []*caller
	gone    int // of those waiting, about
	lined   int
	ahead   int
	share   int // as the engine told it last, 0 before
	ready   bool
	hasty   bool // some of those waiting may accept no wait
}

// NewFlow makes one; see [engine.Flow].
func NewFlow(id string, weight, lookAhead int) *Flow {
	return &Flow{id: id, weight: weight, lookAhead: lookAhead}
}

// SetWeight changes the weight of a flow from its next question on.
func (b *Batcher) SetWeight(f *Flow, weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.weight = weight
}

// Lined is how many permits those ask for who stand in the line of a flow.
func (b *Batcher) Lined(f *Flow) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f.lined
}

// Full reports whether a flow has no room for n permits more now.
func (b *Batcher) Full(f *Flow, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !f.fits(f.lined, n)
}

// Passed says that n permits of a flow are not ahead any more: their turn has
// come, or somebody gives them back. A nil f is no flow.
func (b *Batcher) Passed(f *Flow, n int) {
	if f == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f.ahead -= n
	b.makeReady(f)
}

// fits, under mu, reports whether the share has room for n permits behind those
// of others that are first. One request always fits.
func (f *Flow) fits(first, n int) bool {
	held := f.ahead + first
	return held == 0 || f.share == 0 && held < mostAsked || held+n <= f.share
}

// makeReady, under mu, has a flow served if there is anybody to serve.
func (b *Batcher) makeReady(f *Flow) {
	if f.ready || !f.hasRoom() {
		return
	}
	f.ready = true
	b.ready = append(b.ready, f)
	b.startServer()
}

// hasRoom, under mu, reports whether the first of the line may be asked for. If
// not, nobody who accepts no wait is left in line: whoever stands first and
// does not fit is told, and so are all behind one that waits.
func (f *Flow) hasRoom() bool {
	for {
		f.dropGone()
		if len(f.waiting) == 0 {
			return false
		}
		first := f.waiting[0]
		switch {
		case f.fits(0, first.request.N):
			return true
		case first.request.MaxWait > 0:
			f.dropHasty()
			return false
		case noRoom(first):
			f.pop()
		}
	}
}

// dropGone, under mu, drops those who are gone from the front of the line.
func (f *Flow) dropGone() {
	for len(f.waiting) > 0 && f.waiting[0].state.Load() == gone {
		f.pop()
		f.gone--
	}
}

// dropHasty, under mu, drops those who accept no wait, wherever they stand.
func (f *Flow) dropHasty() {
	if !f.hasty {
		return
	}
	f.hasty = false
	f.waiting = slices.DeleteFunc(f.waiting, func(c *caller) bool {
		return c.request.MaxWait <= 0 && noRoom(c)
	})
}

// noRoom, under mu, tells a caller that there is no room. It reports whether
// the caller was still in line.
func noRoom(c *caller) bool {
	now := time.Now()
	return c.tellInLine(outcome{&engine.Answer{Left: true}, &result{asked: now, arrived: now}})
}

func (f *Flow) pop() *caller {
	c := f.waiting[0]
	f.waiting[0] = nil
	f.waiting = f.waiting[1:]
	return c
}

// lineUpInFlow, under mu, puts a caller at the end of the line of its flow.
func (b *Batcher) lineUpInFlow(c *caller) {
	f := c.request.Flow
	f.waiting = append(f.waiting, c)
	f.lined += c.request.N
	f.hasty = f.hasty || c.request.MaxWait <= 0
	b.makeReady(f)
}

// lineUpAgainInFlows, under mu, lines up those of the places that are of flows,
// each in the line of its flow.
func (b *Batcher) lineUpAgainInFlows(places []Place) {
	var callers map[*Flow][]*caller
	for _, p := range places {
		f := p.caller.request.Flow
		if f == nil {
			continue
		}
		if callers == nil {
			callers = map[*Flow][]*caller{}
		}
		callers[f] = append(callers[f], p.caller)
		f.lined += p.caller.request.N
		f.ahead -= p.caller.request.N
		f.hasty = f.hasty || p.caller.request.MaxWait <= 0
	}
	for f, again := range callers {
		f.waiting = merge(again, f.waiting)
		b.makeReady(f)
	}
}

// putBack, under mu, lines up again those who held their permits ahead and whom
// the engine has left for the next question, or whose question failed.
func (f *Flow) putBack(left []*caller, failure error) {
	there := left[:0]
	for _, c := range left {
		n := c.request.N // once told, c may be another's
		f.ahead -= n
		if !c.staysInLine(failure) {
			continue
		}
		there = append(there, c)
		f.lined += n
		f.hasty = f.hasty || c.request.MaxWait <= 0
	}
	f.waiting = merge(there, f.waiting)
}

// left settles that a caller has left the line. The line keeps its place until
// most are such.
func (b *Batcher) left(c *caller) {
	f := c.request.Flow
	if f == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f.lined -= c.request.N
	f.gone++
	if f.gone > len(f.waiting)/2 {
		f.waiting = slices.DeleteFunc(f.waiting, func(c *caller) bool { return c.state.Load() == gone })
		f.gone = 0
	}
	b.makeReady(f)
}

// nextOfFlows, under mu, moves callers to the question: of each flow that is
// ready, in turn, as many as its share has room for.
func (b *Batcher) nextOfFlows(q *question) {
	b.flowsNext = false
	for len(b.ready) > 0 && len(q.callers) < q.most && len(q.flows) < mostFlows {
		f := b.ready[0]
		b.ready[0] = nil
		b.ready, f.ready = b.ready[1:], false
		q.flows = append(q.flows, f)
		f.askFor(q)
	}
}

// askFor, under mu, moves the callers of the flow that have room.
func (f *Flow) askFor(q *question) {
	asks := &engine.Flow{ID: f.id, Weight: f.weight, LookAhead: f.lookAhead, Ahead: f.ahead, Wanted: f.ahead + f.lined}
	for len(q.callers) < q.most {
		if !f.hasRoom() {
			break
		}
		c := f.pop()
		if !c.state.CompareAndSwap(lined, asked) {
			continue // it has just left
		}
		c.asks = asks
		f.lined -= c.request.N
		f.ahead += c.request.N
		q.callers, q.of = append(q.callers, c), append(q.of, f)
	}
}

// answeredFlows tells the callers of flows their answers, and lines up again
// those who are not answered.
func (q *question) answeredFlows(answers []engine.Answer, done *result) {
	q.learnShares(answers)
	var left []*caller
	for i, c := range q.callers {
		if i >= len(answers) || answers[i].Left && c.request.MaxWait > 0 {
			left = append(left, c)
			continue
		}
		there := c.tell(outcome{&answers[i], done}) // from here on c may be another's
		if !there {
			q.batcher.nobodys(c.ctx, answers[i:i+1]) // c is gone, its ctx stays
		}
		if !there || !answers[i].Granted {
			q.batcher.Passed(q.of[i], q.requests[i].N)
		}
	}
	q.putBackInFlows(left, answers, done)
	runtime.Gosched() // as in answered
}

// learnShares remembers what the engine tells of the flows, and that it is
// there.
func (q *question) learnShares(answers []engine.Answer) {
	q.batcher.mu.Lock()
	defer q.batcher.mu.Unlock()
	q.batcher.away = nil
	for i, a := range answers {
		if a.Share > 0 {
			q.of[i].share = a.Share
		}
	}
}

// putBackInFlows lines up again those of whom the engine has said nothing, or
// that there is no room: each flow's at once, for they stand together, in the
// order of the flows. Those in the line of a flow who are refused by now are
// told. Then more of each flow may have room.
func (q *question) putBackInFlows(left []*caller, answers []engine.Answer, done *result) {
	b := q.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = done.err
	of, requests := q.of[:len(answers)], q.requests
	for _, f := range q.flows {
		n, m := 0, 0
		for n < len(left) && left[n].request.Flow == f {
			n++
		}
		for m < len(of) && of[m] == f {
			m++
		}
		f.putBack(left[:n], done.err)
		f.waiting = refusalsOf(answers[:m], requests).settle(f.waiting, q.last, done)
		left, of, answers, requests = left[n:], of[m:], answers[m:], requests[m:]
		b.makeReady(f)
	}
}
