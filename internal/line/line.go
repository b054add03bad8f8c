// Package line lines callers up and asks for many of them in one question.
package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/ctxerr"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// Line lets one question be under way at a time. Callers that come meanwhile go
// out together in the next one, in the order in which they came. Set the exported
// fields before the first call.
//
// Invariants, under mu: if somebody waits, serve runs or the timer will start it. At
// most one serve goes on; one whose question is overdue ends once that returns.
type Line struct {
	Engine   engine.Engine
	Patience time.Duration      // for an answer
	Heard    func(*engine.News) // is told the news of each answer, before its callers have it

	// Away reports whether an error says that Redis cannot be asked for now. Then
	// whoever stands in line fails, or with Retry stays there and asks again.
	Away  func(error) bool
	Retry bool

	mu      sync.Mutex
	waiting []*caller
	serving bool
	asking  *question     // that is under way
	timer   *time.Timer   // starts serve when the first in line may ask
	failure error         // of the last question, nil once Redis answers: see away.go
	backoff time.Duration // before Redis is asked again
	returns returns       // has a mu of its own
}

// Request is what a caller asks for.
type Request struct {
	N       int
	Amounts engine.Amounts
	Latest  time.Time // the last moment at which a turn is accepted; zero: any
	Now     bool      // a turn now or none
	First   bool      // it missed a turn, and goes before those who have not asked yet
	WasVoid bool      // its turn was made void: it goes before them as well
	Slot    int64     // of the turn that was made void: those line up in this order
}

// Reply is the answer to a request, and the news that came with it.
type Reply struct {
	engine.Answer
	News *engine.News
}

// Comes is when the turn comes, or when the caller may ask again.
func (r *Reply) Comes() time.Time { return r.News.Arrived.Add(r.Wait) }

// caller is somebody in line. Its fields are guarded by the line's mu.
type caller struct {
	Request
	gone  bool      // its ctx has ended
	after time.Time // it may ask then, zero: at once
	lost  error     // of a question whose answer was lost
	done  chan result
}

type result struct {
	reply *Reply // nil if Redis decided nothing, and err says why
	err   error
}

// Ask stands in line and returns the answer. If ctx ends before, what the answer
// grants is given back.
func (l *Line) Ask(ctx context.Context, r Request) (*Reply, error) {
	c := &caller{Request: r, done: make(chan result, 1)}
	l.mu.Lock()
	if r.First || r.WasVoid {
		l.putFirst(c)
	} else {
		l.waiting = append(l.waiting, c)
	}
	l.start()
	l.mu.Unlock()
	select {
	case r := <-c.done:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, l.leave(ctx, c)
	}
}

// leave takes a caller out of the line.
func (l *Line) leave(ctx context.Context, c *caller) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.gone = true
	err := ctxerr.Ended(ctx, "left in line")
	select {
	case r := <-c.done: // the answer came at this moment
		l.abandon(r.reply)
		if r.err != nil {
			err = fmt.Errorf("%w: %w", err, r.err)
		}
	default:
		l.start() // whoever stands behind may ask sooner
	}
	if l.failure != nil {
		err = fmt.Errorf("%w: %w", err, l.failure)
	}
	return withLoss(err, c.lost)
}

// putFirst, under mu, puts callers first in line, behind others that asked before.
func (l *Line) putFirst(callers ...*caller) {
	at := 0
	for at < len(l.waiting) && len(callers) > 0 && l.waiting[at].staysBefore(callers[0]) {
		at++
	}
	l.waiting = slices.Insert(l.waiting, at, callers...)
}

// staysBefore reports whether c, who stands in line, stays before one that lines up
// again.
func (c *caller) staysBefore(other *caller) bool {
	return c.First || c.WasVoid && (!other.WasVoid || c.Slot <= other.Slot)
}

// start, under mu, lets serve run.
func (l *Line) start() {
	if !l.serving && len(l.waiting) > 0 {
		l.serving = true
		go l.serve()
	}
}

// question is one question for some callers. A pointer tells it from others.
type question struct{ callers []*caller }

// serve asks for those in line until nobody may ask, or until a question is
// overdue: then another serve goes on.
func (l *Line) serve() {
	for {
		q := l.next()
		if q == nil {
			return
		}
		answers, news, err := l.ask(q)
		if err == nil && l.Heard != nil {
			l.Heard(&news)
		}
		if !l.end(q, answers, &news, err) {
			return
		}
	}
}

// end hands out the answers to a question, and reports whether it was not overdue.
func (l *Line) end(q *question, answers []engine.Answer, news *engine.News, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	overdue := l.asking != q
	if !overdue {
		l.asking = nil
	}
	switch {
	case overdue:
		for _, a := range answers {
			l.abandon(&Reply{a, news})
		}
	case err != nil:
		l.fail(q.callers, err)
	default:
		l.failure, l.backoff = nil, 0
		l.answer(q.callers, answers, news)
	}
	return !overdue
}

// overdue gives up a question that had no answer in time.
func (l *Line) overdue(q *question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != q {
		return
	}
	l.asking, l.serving = nil, false
	l.fail(q.callers, timeout.ErrOverdue)
	l.start()
}

// next begins a question of those in line who may ask now. If nobody may, serve
// ends, and the timer starts it again.
func (l *Line) next() *question {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, n := time.Now(), 0
	l.waiting = slices.DeleteFunc(l.waiting, func(c *caller) bool { return c.gone || l.expires(c, now) })
	for n < len(l.waiting) && n < engine.MostRequests && !l.waiting[n].after.After(now) {
		n++
	}
	if n > 0 {
		l.asking = &question{slices.Clone(l.waiting[:n])}
		l.waiting = l.waiting[n:]
		return l.asking
	}
	l.serving = false
	switch {
	case len(l.waiting) > 0:
		l.blockUntil(l.waiting[0].after)
	case l.timer != nil:
		l.timer.Stop()
	}
	return nil
}

// expires, under mu, answers a caller whose time is over.
func (l *Line) expires(c *caller, now time.Time) bool {
	if c.Latest.IsZero() || c.Latest.After(now) {
		return false
	}
	if l.failure == nil {
		c.reply(&Reply{News: &engine.News{Arrived: now}}, nil)
	} else {
		c.reply(nil, fmt.Errorf("fairlimit: its time is over: %w: %w", context.DeadlineExceeded, l.failure))
	}
	return true
}

// blockUntil, under mu, lets nobody in the line ask before a moment. Whoever does not
// accept a turn at that moment is refused.
func (l *Line) blockUntil(until time.Time) {
	arrived := time.Now()
	l.waiting = slices.DeleteFunc(l.waiting, func(c *caller) bool {
		retries := l.failure != nil && !c.Now // expires answers these with the failure
		if retries || c.accepts(until) {
			return false
		}
		c.reply(&Reply{engine.Answer{Wait: until.Sub(arrived)}, &engine.News{Arrived: arrived}}, l.failure)
		return true
	})
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(until), l.wake)
	} else {
		l.timer.Reset(time.Until(until))
	}
}

func (l *Line) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
}

// accepts reports whether the caller accepts a turn at that moment.
func (c *caller) accepts(moment time.Time) bool {
	return !c.Now && (c.Latest.IsZero() || !c.Latest.Before(moment))
}

// ask asks a question. It may return long after it is overdue: the client's own
// timeouts bound it.
func (l *Line) ask(q *question) ([]engine.Answer, engine.News, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.overdue(q) })()
	if l.probes() {
		if _, err := l.Engine.Status(ctx); err != nil {
			return nil, engine.News{}, inTime(err)
		}
	}
	answers, news, err := l.Engine.Take(ctx, requestsOf(q.callers))
	return answers, news, inTime(err)
}

// inTime replaces the line's own deadline in an error: no caller's has passed.
func inTime(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return timeout.ErrOverdue
	}
	return err
}

// requestsOf works out how long each caller accepts to wait from now on.
func requestsOf(asking []*caller) []engine.Request {
	now := time.Now()
	requests := make([]engine.Request, len(asking))
	for i, c := range asking {
		wait := engine.Forever
		if c.Now {
			wait = 0
		} else if !c.Latest.IsZero() {
			wait = max(0, c.Latest.Sub(now))
		}
		requests[i] = engine.Request{N: c.N, Amounts: c.Amounts, MaxWait: wait, WasVoid: c.WasVoid}
	}
	return requests
}

// answer, under mu, hands out the answers. Whoever may ask again stands in line
// again, before those who have not asked.
func (l *Line) answer(asking []*caller, answers []engine.Answer, news *engine.News) {
	var notYet []*caller
	replies := make([]Reply, len(answers))
	for i, c := range asking {
		r := &replies[i]
		r.Answer, r.News = answers[i], news
		if r.Verdict == engine.NotYet && r.Err == nil && c.accepts(r.Comes()) {
			c.after = r.Comes()
			notYet = append(notYet, c)
			continue
		}
		if c.gone {
			l.abandon(r)
		}
		c.reply(r, r.Err)
	}
	l.putFirst(notYet...)
}

// reply hands out an answer. It is no refusal if an answer was lost before: that
// would say that nothing was consumed.
func (c *caller) reply(r *Reply, err error) {
	if err == nil && r.Verdict != engine.Granted && c.lost != nil {
		err = fmt.Errorf("fairlimit: no turn comes in time: %w", c.lost)
	}
	c.done <- result{r, withLoss(err, c.lost)}
}

// abandon gives back what was granted to a caller that has left.
func (l *Line) abandon(r *Reply) {
	if r != nil && r.Verdict == engine.Granted && r.Err == nil {
		l.Abandon(r.Turn)
	}
}
