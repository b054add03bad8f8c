package fairlimit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/duration"
	"github.com/fairlimit/fairlimit/internal/naming"
)

const longestPause = 365 * 24 * time.Hour

// Queue is a [Limiter] on an engine that grants turns ahead, as fair does. It
// can also reserve turns, pause the queue for everybody, requeue whoever waits, and
// change its quotas. On such an engine the Limiter that [New] returns is a *Queue.
type Queue struct{ *limiter }

// NewQueue is [New] for an engine that grants turns ahead. For another engine,
// such as window, the error matches [ErrUnsupported].
func NewQueue(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (*Queue, error) {
	l, err := New(rdb, name, quota, opts...)
	if err != nil {
		return nil, err
	}
	return queueOf(l, name)
}

// Open is [NewQueue] without a quota. The Queue can show its Status, pause, resume,
// requeue, reset and set quotas. It has the units that the queue in Redis has. If
// it is asked for permits, the error matches [ErrNoQuota], unless Open was given
// [WithStoredQuota] and a quota is stored.
func Open(rdb redis.UniversalClient, name string, opts ...Option) (*Queue, error) {
	l, err := build(rdb, name, Quota{}, opts)
	if err != nil {
		return nil, err
	}
	return queueOf(l, name)
}

func queueOf(l Limiter, name string) (*Queue, error) {
	q, ok := l.(*Queue)
	if !ok {
		return nil, naming.Of(name, fmt.Errorf("%w: a Queue, because it grants no turns ahead", ErrUnsupported))
	}
	return q, nil
}

// Flow returns the same queue for the callers of a flow: see [WithFlow]. It is for
// a process that has many flows, such as one for each tenant.
//
// Flow does no I/O, and what it returns needs no closing. Keep it: it has a line of
// its own, in which callers stand in order. Everything else is that of the whole
// queue, such as Status, Pause and Reset.
func (q *Queue) Flow(id string, weight int) (*Queue, error) {
	if err := checkFlow(id, weight); err != nil {
		return nil, q.named(err)
	}
	f := *q.limiter
	f.queue = q.queue.Flow(id, weight)
	f.lineBefore(f.queue, q.line.Retry)
	return &Queue{&f}, nil
}

// WithFlow makes the limiter part of a flow, which has its share of the quota:
//
//	limiter, err := fairlimit.New(rdb, "tax-office", quota,
//		fairlimit.WithFlow("billing", 1)) // this service, and its weight
//
// A flow is all limiters of the name with the same id, on all machines. Give all
// limiters of the name a flow, and those of one flow the same weight. The id is any
// text that is not empty. The weight is 1 to 1000. Flows that want more than there
// is get permits in proportion to their weights, however many callers each has:
//
//   - While several flows are active, turns are evenly spaced, and all together
//     hold few permits ahead. So a flow with few callers has its share as well.
//   - A flow that is alone gets all of the quota. It holds up to twice what may go
//     at once, or what goes in 250 ms, and a newcomer waits for that: with many
//     permits in a long Per, give the quota a small Burst.
//   - A flow that is idle for half a second is forgotten, without credit or debt.
//   - Callers of one limiter keep their order.
//
// A caller beyond the share of its flow waits in this process and has no turn
// yet. Allow takes a permit that is due now if nobody of the flow waits. Limiters
// without a flow take as much as they want.
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

const heaviest = 1000

func checkFlow(id string, weight int) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: empty id", ErrInvalidFlow)
	case weight < 1 || weight > heaviest:
		return fmt.Errorf("%w: a weight of %d, want 1 to %d", ErrInvalidFlow, weight, heaviest)
	}
	return nil
}

// Pause lets nobody go for d from now, on any machine: the queue's clock stands
// still. So what was left until a slot comes on top of the pause: a turn that
// was 3 s ahead comes 3 s after the end of the pause. Pause is meant for an
// upstream that answers 429 with Retry-After.
//
//   - Whoever sleeps hears of it within a second, if Redis answers. Callers that
//     are due sooner may still go. The order stays.
//   - A caller whose turn now comes after its deadline gets a [*RefusedError] once
//     it hears of that, and its permits go back. It matches [ErrPaused].
//   - Of several pauses the longest counts. So everybody may send the same one.
//   - A pause lasts at least 2 s. In a shorter one, callers that have not heard of
//     it could exceed the quota together with those that have.
//   - Allow returns false, and [Status] says how long the pause still lasts.
//   - [Queue.Resume] or Reset ends it.
//
// Permits used before the pause count for d longer. If d is less than a
// microsecond or more than a year, the error matches [ErrInvalidPause].
func (q *Queue) Pause(ctx context.Context, d time.Duration) error {
	err := duration.Positive(d)
	if d > longestPause {
		err = fmt.Errorf("%v, want at most %v", d, longestPause)
	}
	if err != nil {
		return q.named(fmt.Errorf("%w: %w", ErrInvalidPause, err))
	}
	d = max(d, 2*engine.Within)
	if q.trace.Paused != nil {
		q.trace.Paused(d)
	}
	return q.steer(ctx, "nothing was paused", "pause", func(ctx context.Context) (engine.News, error) {
		return q.queue.Pause(ctx, d)
	})
}

// Resume ends a pause: the queue's clock goes on, and all slots come sooner. If
// the queue is not paused, nothing happens. Whoever sleeps hears of it within a
// second. Callers whose turns come before they hear of it miss them and ask again. Do
// not resume within 2 s of the Pause: callers that have not heard of either could
// exceed the quota together with those that have.
func (q *Queue) Resume(ctx context.Context) error {
	return q.steer(ctx, "nothing was resumed", "resume", q.queue.Resume)
}

// Requeue makes turns void, so that all who wait ask again, in order, within a
// second. What has gone stays counted. Use it after a process that held turns was
// killed: they would pass unused.
//
// Callers that are due within a second still go. Until the second is over, calls
// that come new wait for those that ask again. Each Requeue can make the last in
// line wait up to a Per longer. Turns and reservations of before can no longer be
// given back or settled.
func (q *Queue) Requeue(ctx context.Context) error {
	return q.steer(ctx, "nothing was requeued", "requeue", q.queue.Requeue)
}

// Quotas returns the quotas that hold for this limiter, and whether they are the
// stored ones: see [WithStoredQuota]. A Queue that [Open] made has no quotas of
// its own: it returns the stored ones. A queue that has quotas of its own, and no
// WithStoredQuota, asks nothing.
func (q *Queue) Quotas(ctx context.Context) (quotas []Quota, stored bool, err error) {
	if err := ready(ctx, "nothing was asked"); err != nil {
		return nil, false, q.named(err)
	}
	if q.own != nil {
		return slices.Clone(q.own), false, nil
	}
	type answer struct {
		quotas []engine.Quota
		stored bool
	}
	a, err := call(ctx, q.limiter, "nothing was asked", "quotas", func(ctx context.Context) (a answer, err error) {
		a.quotas, a.stored, err = q.queue.Quotas(ctx)
		return a, err
	})
	for _, quota := range a.quotas {
		quotas = append(quotas, Quota(quota))
	}
	return quotas, a.stored, err
}

// SetQuotas stores quotas in Redis. All limiters of the name that were made
// [WithStoredQuota], on all machines, go by them instead of by their own. If the
// stored text changes, it is a [Queue.Requeue] as well: so wider and narrower
// quotas reach whoever waits. What has gone stays counted.
//
// The quotas of units stand in the same text: those that are stored already if
// this queue was made WithStoredQuota or by [Open], and else those of its
// [WithUnit].
//
// If a quota is invalid or none is given, the error matches [ErrInvalidQuota], and
// [ErrUnsupported] if the engine cannot hold it.
func (q *Queue) SetQuotas(ctx context.Context, quotas ...Quota) error {
	all, err := q.checked(quotas)
	if err != nil {
		return err
	}
	return q.setQuotas(ctx, all)
}

// checked returns quotas that can be stored.
func (q *Queue) checked(quotas []Quota) ([]engine.Quota, error) {
	if len(quotas) == 0 {
		err := fmt.Errorf("%w: there is none to store; ForgetQuotas forgets the stored ones", ErrInvalidQuota)
		return nil, q.named(err)
	}
	all := make([]engine.Quota, len(quotas))
	for i, quota := range quotas {
		if err := quota.check(); err != nil {
			return nil, q.named(err)
		}
		all[i] = engine.Quota(quota)
	}
	return all, nil
}

// ForgetQuotas undoes [Queue.SetQuotas]: every limiter goes by the quotas that it
// was made with.
func (q *Queue) ForgetQuotas(ctx context.Context) error { return q.setQuotas(ctx, nil) }

func (q *Queue) setQuotas(ctx context.Context, quotas []engine.Quota) error {
	return q.steer(ctx, "nothing was stored", "set quotas", func(ctx context.Context) (engine.News, error) {
		return q.queue.SetQuotas(ctx, quotas)
	})
}
