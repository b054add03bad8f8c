package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// question is one call of the engine, for callers or for givers. Its server
// uses it again for the next.
//
// Invariant: it belongs to the goroutine that sends it from start to finish,
// and to overdue if that runs in between. Of the two, stop decides, so only one
// of them ever touches those whom the question was sent for.
type question struct {
	asker    *Asker
	callers  []*Request
	lines    []*Line // each once; all of flows, or the common one alone
	requests []engine.Request
	givers   []*giver
	most     int // callers that it may hold, see mostAsked

	stop   func() bool
	cancel context.CancelFunc
}

// startServer, under mu, starts the goroutine that serves unless there is one.
func (a *Asker) startServer() {
	if !a.busy {
		a.busy = true
		go a.serve()
	}
}

// serve sends what has lined up until nothing is left, or until an answer is
// overdue and another goroutine serves.
func (a *Asker) serve() {
	q := &question{asker: a, most: mostAsked}
	for a.outlast(); a.gather(q) && q.send(); a.outlast() {
		// Callers whose turn has come run first and may line up again: one
		// question for all of them instead of two, and a caller alone needs no
		// new server, which takes a tenth of its time.
		runtime.Gosched()
	}
}

// gather fills q with those who go next. If nobody is left it stops serving and
// returns false.
func (a *Asker) gather(q *question) bool {
	q.callers, q.lines = q.callers[:0], q.lines[:0]
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.returnsGo(q):
		q.givers = a.nextReturns()
	case len(a.ready) > 0:
		q.givers = nil
		a.nextLines(q)
	default:
		a.common.waiting, a.ready, a.returns, a.away, a.pause = nil, nil, nil, nil, 0
		a.busy = false
		return false
	}
	return true
}

// nextLines, under mu, moves callers to the question: those of the common line,
// or of each flow that is ready, whichever has waited for longer.
func (a *Asker) nextLines(q *question) {
	common := a.ready[0].isCommon()
	a.ready = slices.DeleteFunc(a.ready, func(l *Line) bool {
		if l.isCommon() != common || len(q.callers) >= q.most {
			return false
		}
		l.ready = false
		l.askFor(q)
		q.lines = append(q.lines, l)
		return true
	})
}

// send asks, and tells those whom the question is for.
func (q *question) send() (inTime bool) {
	if len(q.givers) > 0 {
		return q.giveBack()
	}
	return q.take()
}

// start begins the time of the question. Its ctx has the values of the caller
// that it was sent for first, and nobody's cancellation ends it.
func (q *question) start(ctx context.Context) context.Context {
	ctx, q.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout.Answer)
	q.stop = context.AfterFunc(ctx, q.overdue)
	return ctx
}

// finish reports whether the answer came in time, and returns the error that it
// came with. If it did not come in time, everybody was told so, another
// goroutine serves, and q must not be used again.
func (q *question) finish(ctx context.Context, err error) (_ error, inTime bool) {
	if err != nil && ctx.Err() != nil {
		err = timeout.ErrOverdue // nobody's own deadline
	}
	inTime = q.stop()
	q.cancel()
	return err, inTime
}

// overdue runs on a goroutine of its own, which serves from then on.
func (q *question) overdue() {
	q.fails(timeout.ErrOverdue)
	q.asker.serve()
}

// take asks for the callers of q and tells them.
func (q *question) take() (inTime bool) {
	if len(q.callers) == 0 {
		return true
	}
	now, first := time.Now(), q.callers[0].ctx
	q.requests = q.requests[:0]
	for _, c := range q.callers {
		q.requests = append(q.requests, c.asOf(now))
	}
	ctx := q.start(first)
	answers, err := q.asker.Engine.Take(ctx, q.requests)
	err, inTime = q.finish(ctx, err)
	if !inTime {
		q.asker.nobodys(first, answers)
		return false
	}
	if err != nil {
		q.fails(err)
		return true
	}
	q.answered(answers, now)
	return true
}

// fails is what becomes of a question that failed.
func (q *question) fails(err error) {
	if q.keeps(err) {
		return
	}
	a := q.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range q.callers {
		c.line.ahead -= c.inShare()
		c.tell(Reply{}, err)
	}
	for _, g := range q.givers {
		g.done <- err
	}
	for _, l := range q.lines {
		a.makeReady(l)
	}
}

// answered tells the callers their answers, and lines up again callers that the
// engine has left for the next question.
func (q *question) answered(answers []engine.Answer, asked time.Time) {
	arrived := time.Now()
	q.asker.pause = 0
	q.learn(answers)
	if q.asker.Answered != nil && !slices.ContainsFunc(answers, isNotReplicated) {
		granted := slices.ContainsFunc(answers, func(a engine.Answer) bool { return a.Granted })
		q.asker.Answered(arrived.Sub(asked), granted)
	}
	var left []*Request
	for i, c := range q.callers {
		if i >= len(answers) || answers[i].Left && c.MaxWait > 0 {
			left = append(left, c)
			continue
		}
		line, n, ctx := c.line, c.inShare(), c.ctx
		there := c.tell(Reply{Answer: &answers[i], Asked: asked, Arrived: arrived}, nil)
		if !there {
			q.asker.nobodys(ctx, answers[i:i+1])
		}
		if !there || !answers[i].Granted {
			q.asker.Passed(line, n)
		}
	}
	q.putBack(left, nil)
}

// isNotReplicated reports whether an answer waited for replicas for as long as
// one may: that tells nothing of the way.
func isNotReplicated(a engine.Answer) bool { return errors.Is(a.Err, engine.ErrNotReplicated) }

// learn remembers what an answer tells: that the engine is there, how many
// callers the next question may hold, and what the flows may do.
func (q *question) learn(answers []engine.Answer) {
	q.most = min(2*q.most, mostAsked)
	if len(answers) < len(q.requests) {
		q.most = max(leastAsked, 2*len(answers))
	}
	a := q.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = nil
	for i, answer := range answers {
		c, line := q.callers[i], q.callers[i].line
		if answer.Share > 0 {
			line.share = answer.Share
		}
		if answer.Left && answer.Wait > 0 && c.MaxWait > 0 { // else nobody waits
			a.holdBack(line, answer.Wait, c.N, answer.Paused > 0)
		}
	}
}

// putBack lines up again callers that held their permits ahead and that the
// engine has left for the next question, or whose question failed. Then more of
// each line may have room.
func (q *question) putBack(left []*Request, failure error) {
	a := q.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	there := left[:0]
	for _, c := range left {
		c.line.ahead -= c.inShare()
		if c.staysInLine(failure) {
			there = append(there, c)
		}
	}
	merge(there)
	for _, l := range q.lines {
		a.makeReady(l)
	}
}
