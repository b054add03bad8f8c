package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"
	"weak"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

const heaviest = 1000

// ErrInvalidFlow is returned by [Queue.Flow], and by [New] with [WithFlow], if
// the id is empty or the weight is not 1 to 1000.
var ErrInvalidFlow = errors.New("fairlimit: invalid flow")

// WithFlow makes the limiter part of a flow, which has its share of the quota:
//
//	limiter, err := fairlimit.New(rdb, "tax-office", quota,
//		fairlimit.WithFlow("billing", 1)) // this service, and its weight
//
// A flow is all limiters of the name with the same id, on all machines. Give all
// limiters of the name a flow. The id is any text that is not empty. The weight
// is 1 to 1000, and the newest counts. Flows that want more than there is get
// permits in proportion to their weights, however many callers each has:
//
//   - A flow with few callers has its share as well, as far as they can use it:
//     turns are evenly spaced while several flows are active.
//   - The whole quota is used as long as anybody has callers.
//   - The first turn of a new flow comes after at most the look-ahead: see
//     [WithLookAhead].
//   - A flow that is idle for half a second is forgotten, without credit or debt.
//   - Callers of one limiter keep their order.
//
// A caller beyond the share of its flow waits in this process and has no turn
// yet. With [WithMaxQueued] the callers in line count, and [WithMaxWait] counts
// from the call. Allow takes a permit that is due now if nobody of the flow
// waits. Limiters without a flow take as much as they want.
//
// For a bad id or weight the error of New matches [ErrInvalidFlow]. For an engine
// that grants no turns ahead it matches [ErrUnsupported].
func WithFlow(id string, weight int) Option {
	return func(o *options) {
		if err := checkFlow(id, weight); err != nil {
			o.fail(fmt.Errorf("%w: WithFlow: %w", ErrInvalidOption, err))
		}
		o.flow, o.weight = id, weight
	}
}

// WithLookAhead sets how many permits all flows of the name together hold ahead,
// at least 1. All limiters of a name should have the same look-ahead.
//
// By default it follows from how many callers the flows have. It is at most twice
// what may go at one moment, or what may go in 100 ms, or 8, whichever is most. It
// is at least what may go while two questions are under way, and in 100 ms. Each
// limiter can always hold one request.
//
// With a longer look-ahead a new flow waits longer, and a flow of few callers gets
// less. If the look-ahead is too short, part of the quota stays unused. [New]
// refuses a look-ahead without [WithFlow]. [NewQueue] takes it for the flows of
// [Queue.Flow].
func WithLookAhead(permits int) Option {
	return func(o *options) {
		if permits < 1 {
			o.refuse("WithLookAhead: %d, want at least 1", permits)
		}
		o.lookAhead = permits
	}
}

// WithFlowQuota gives a flow a quota of its own, its ceiling. It goes with
// [WithFlow], and with [Queue.Flow]:
//
//	acme, err := queue.Flow("acme", 1, fairlimit.WithFlowQuota(fairlimit.PerSecond(2)))
//
// In no window do the callers of the flow, on all machines, get more than the
// ceiling allows. It is as strict as the queue's own quota, and has the same
// guard. It counts the calls that turns reserve, not what a [Turn] used beyond
// them. A turn comes where both have room. A flow that its ceiling holds back
// takes no place in the queue, so nobody waits for it. Give all limiters of a
// flow the same ceiling; otherwise each is held to its own.
//
// A call for more permits than the ceiling allows fails with [ErrExceedsQuota].
// If the ceiling's room comes too late for a caller, the [*RefusedError] says
// so. A caller that stands behind others may wait until its deadline. Callers
// that are held back hear of a change, or a [Queue.Reset], within ten seconds.
// [Queue.Reset] forgets what the ceilings counted as well. If the server loses
// data, a ceiling that a limiter knows to be lost counts as full at the newest
// slot. If the quota is invalid, the error matches [ErrInvalidQuota].
//
// The cost is a second key for each flow, and half as much of Redis's time again
// for each turn.
func WithFlowQuota(q Quota) Option {
	return func(o *options) {
		if err := q.checkOf("WithFlowQuota: "); err != nil {
			o.fail(err)
		}
		o.flowQuota = &q
	}
}

func checkFlow(id string, weight int) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: empty id", ErrInvalidFlow)
	case weight < 1 || weight > heaviest:
		return fmt.Errorf("%w: a weight of %d, want 1 to %d", ErrInvalidFlow, weight, heaviest)
	}
	return nil
}

// Flow returns the same queue for callers of a flow: see [WithFlow]. It is for a
// process that has many flows, such as one for each tenant: their questions are
// combined. A flow shares everything with q except its line, its share, and what
// [WithMaxQueued] counts. The same id returns the same flow. The newest weight
// counts, and the newest ceiling that was given, as long as the program holds a
// queue of the flow: give the ceiling wherever you call Flow. Flow does no I/O, and
// what it returns needs no closing. A flow of a flow is another flow of the same
// queue.
//
// What it returns can be steered alone. Pause holds back this flow only: no
// caller of it is granted a turn until the end, and the callers of this process
// that sleep give theirs back and line up again. Callers of other processes that
// hold a turn still go. SetQuotas stores one quota, which is the ceiling of the
// flow in place of that of WithFlowQuota, in all limiters; ForgetQuotas forgets it.
// Of Status, Available and Delay are those of a caller of the flow. Reset and
// Quotas are those of the whole queue.
//
// [WithFlowQuota] is the only option. For any other the error matches
// [ErrInvalidOption].
func (q *Queue) Flow(id string, weight int, opts ...Option) (*Queue, error) {
	if err := checkFlow(id, weight); err != nil {
		return nil, q.named(err)
	}
	if q.flows.sharer == nil {
		return nil, q.named(fmt.Errorf("%w: flows", ErrUnsupported))
	}
	quota, err := flowQuota(opts)
	if err != nil {
		return nil, q.named(err)
	}
	f, err := q.parts.flowOf(id, weight, quota)
	if err != nil {
		return nil, q.named(err)
	}
	return &Queue{&limiter{parts: q.parts, flow: f, only: id}}, nil
}

// flowQuota is the one thing that options of a flow may say.
func flowQuota(opts []Option) (*Quota, error) {
	o := options{trace: &Trace{}}
	for _, opt := range opts {
		if o.flowQuota = nil; opt != nil {
			opt(&o)
		}
		if o.flowQuota == nil {
			o.refuse("Flow takes no option but WithFlowQuota")
		}
	}
	return o.flowQuota, o.err
}

// flows are those of one limiter value, as long as somebody has them.
type flows struct {
	sharer    engine.Sharer // the engine, nil if it has no flows
	lookAhead int
	maxQueued int

	mu    sync.Mutex
	known map[string]weak.Pointer[flow]
}

// share makes what flows need, and the flow of the limiter itself.
func (l *limiter) share(o *options, e engine.Engine) error {
	sharer, _ := e.(engine.Sharer)
	if sharer == nil && (o.flow != "" || o.lookAhead > 0) {
		return fmt.Errorf("%w: WithFlow and WithLookAhead need turns granted ahead", ErrUnsupported)
	}
	l.flows.sharer, l.flows.lookAhead, l.flows.maxQueued = sharer, o.lookAhead, o.maxQueued
	if o.flow == "" {
		return nil
	}
	f, err := l.parts.flowOf(o.flow, o.weight, o.flowQuota)
	l.flow = f
	return err
}

// flowOf returns the flow of an id, with its ceiling unless the quota is nil.
func (p *parts) flowOf(id string, weight int, quota *Quota) (*flow, error) {
	f := &p.flows
	var ceiling engine.Ceiling
	if quota != nil {
		var err error
		if ceiling, err = f.sharer.CeilingOf(engine.Quota(*quota)); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	it := f.known[id].Value()
	if it == nil {
		it = &flow{newBacklog(f.maxQueued), coalesce.NewLine(id, weight, f.lookAhead)}
		if f.known == nil {
			f.known = map[string]weak.Pointer[flow]{}
		}
		f.known[id] = weak.Make(it)
		runtime.AddCleanup(it, f.forget, id)
	}
	p.asker.SetFlow(it.line, weight, ceiling)
	return it, nil
}

// forget drops a flow that nobody has any more.
func (f *flows) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[id].Value() == nil {
		delete(f.known, id)
	}
}

// tooFar refuses a request of a flow that could not be in time even if the
// flow had the whole quota, or its whole ceiling. Both may have changed since this
// process heard of them. So somebody has to stand in line, who asks and hears; and
// whoever never fits is told so by the answer.
func (l *limiter) tooFar(w *wait) error {
	if l.line == nil || w.MaxWait == engine.Forever && w.Deadline.IsZero() || w.MaxWait == 0 {
		return nil
	}
	lined, until, paused := l.asker.Lined(l.line)
	permits, ceiling := lined+w.N, l.asker.Ceiling(l.line)
	if lined == 0 || w.TooLarge {
		permits = 1 // nothing is too far
	}
	wait := l.flows.sharer.AtBest(permits)
	byCeiling := ceiling != nil && ceiling.AtBest(permits) > wait
	if byCeiling {
		wait = ceiling.AtBest(permits)
	}
	if held := time.Until(until); held > wait {
		wait, byCeiling = held, !paused
	} else {
		paused = false
	}
	late := !w.Deadline.IsZero() && wait > time.Until(w.Deadline)
	if late || wait > w.MaxWait {
		return &RefusedError{Wait: wait, limit: limit(&w.Request), ceiling: byCeiling, paused: paused}
	}
	return nil
}

// tooLarge reports whether a call of a flow never fits its ceiling or the
// quotas, as far as is known.
func (l *limiter) tooLarge(n int, amounts engine.Amounts) bool {
	if l.line == nil {
		return false
	}
	if ceiling := l.asker.Ceiling(l.line); ceiling != nil && ceiling.Fits(n) != nil {
		return true
	}
	return l.count != nil && l.fitsKnown(n, amounts) != nil
}

// cost is how many permits a turn counts for in the share of its flow.
func (l *limiter) cost(n int, amounts engine.Amounts) int {
	if amounts == "" {
		return n
	}
	return l.count.CostOf(n, amounts)
}

// passed says that permits of the flow, if there is one, are not ahead any more.
func (l *limiter) passed(n int) { l.asker.Passed(l.line, n) }

// pauseFlow is Pause of one flow.
func (q *Queue) pauseFlow(ctx context.Context, d time.Duration) error {
	err := timeout.Do(ctx, func(ctx context.Context) error { return q.flows.sharer.PauseFlow(ctx, q.only, d) })
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		q.sleepers.PutOff(q.line, d)
	}
	return err
}

// setCeiling is SetQuotas of one flow, or ForgetQuotas.
func (q *Queue) setCeiling(ctx context.Context, quotas []engine.Quota) error {
	if len(quotas) > 1 {
		return fmt.Errorf("%w: %d quotas for a flow, which has one", ErrInvalidQuota, len(quotas))
	}
	var ceiling *engine.Quota
	if len(quotas) == 1 {
		ceiling = &quotas[0]
	}
	return timeout.Do(ctx, func(ctx context.Context) error { return q.flows.sharer.SetCeiling(ctx, q.only, ceiling) })
}

// askNever asks for a turn that it accepts at no time, so that nothing is granted.
// It is part of a Status: it asks the engine itself, as [limiter.assemble] tells.
func (l *limiter) askNever(ctx context.Context, flow *engine.Flow, n int) (engine.Answer, error) {
	never := []engine.Request{{N: n, MaxWait: -time.Microsecond, Flow: flow}}
	began := time.Now()
	answers, err := l.flows.sharer.Take(ctx, never)
	l.trace.asked("status", 1, began, err)
	if err != nil {
		return engine.Answer{}, err
	}
	return answers[0], answers[0].Err
}

// flowStatus completes the status of the queue for a caller of the flow.
func (l *limiter) flowStatus(ctx context.Context, status *engine.Status) error {
	flow := &engine.Flow{ID: l.only, Weight: 1, Ceiling: l.asker.Ceiling(l.line)}
	ask := func(n int) (engine.Answer, error) { return l.askNever(ctx, flow, n) }
	one, err := ask(1)
	if err != nil {
		return err
	}
	status.Delay, status.Paused = max(status.Delay, one.Wait), max(status.Paused, one.Paused)
	status.Available = sort.Search(status.Available, func(n int) bool {
		if err != nil {
			return true
		}
		var more engine.Answer
		if more, err = ask(n + 1); errors.Is(err, ErrExceedsQuota) { // that of the ceiling, which may be a stored one
			err = nil
			return true
		}
		return err != nil || more.Wait > 0
	})
	return err
}
