package fairlimit

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// Queue is a [Limiter] on an engine that grants turns ahead, as fair does. It
// can also reserve turns, pause the queue for everybody, and change its quotas.
// On such an engine the Limiter that [New] returns is a *Queue.
type Queue struct{ *limiter }

var _ Reserver = (*Queue)(nil)

// NewQueue is [New] for an engine that grants turns ahead. For another engine,
// such as window, the error matches [ErrUnsupported].
func NewQueue(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (*Queue, error) {
	l, err := build(rdb, name, quota, quota.check, opts)
	if err != nil {
		return nil, err
	}
	return queueOf(l, name)
}

// Open is [NewQueue] without a quota. The Queue can show its Status, pause, reset
// and set quotas. If it is asked for permits, the error matches [ErrNoQuota],
// unless Open was given [WithStoredQuota] and a quota is stored.
func Open(rdb redis.UniversalClient, name string, opts ...Option) (*Queue, error) {
	l, err := build(rdb, name, Quota{}, func() error { return nil }, opts)
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

// steerer is the engine, if its queue can be steered.
func (q *Queue) steerer() (engine.Steerer, error) {
	if q.steer == nil {
		return nil, fmt.Errorf("%w: its queue cannot be steered", ErrUnsupported)
	}
	return q.steer, nil
}

// Quotas returns the quotas that hold for this limiter, and whether they are the
// stored ones: see [WithStoredQuota]. A Queue that [Open] made has no quotas of
// its own: it returns the stored ones.
//
// Quotas asks Redis, and restores what the server has lost, as Status does. A
// queue that was made with quotas and without WithStoredQuota has nothing to
// ask: then Redis hears nothing of what it has lost.
func (q *Queue) Quotas(ctx context.Context) (quotas []Quota, stored bool, err error) {
	s, err := q.steerer()
	if err == nil {
		err = ready(ctx, "nothing was asked")
	}
	if err != nil {
		return nil, false, q.named(err)
	}
	if q.own != nil {
		return slices.Clone(q.own), false, nil
	}
	type answer struct {
		quotas []engine.Quota
		stored bool
	}
	a, err := timeout.Call(ctx, func(ctx context.Context) (a answer, err error) {
		a.quotas, a.stored, err = s.Quotas(ctx)
		return a, err
	})
	for _, q := range a.quotas {
		quotas = append(quotas, Quota(q))
	}
	return quotas, a.stored, q.named(err)
}

// SetQuotas stores quotas in Redis. All limiters of the name that were made
// [WithStoredQuota], on all machines, go by them instead of by their own. The
// first decision of each limiter after the change obeys it. This queue itself
// obeys only if it was made WithStoredQuota.
//
// What was consumed stays consumed. If the quotas become wider, turns that are
// held keep their slots. If they become narrower, these turns come later, by the
// ratio of the rates. Their callers learn of it as they learn of a
// [Queue.Pause].
//
// From [WithPauseWithin] after the change on, no window of the new quotas is
// exceeded. There is one exception: a window of the old quotas may have held
// more than the new Permits. Turns that share a slot still go together. So a
// new window may hold as many as an old one did, until the held turns are gone.
// The rate is the new one even then.
//
// Turns that this limiter knows of and the server has lost are restored first.
//
// If a quota is invalid or none is given, the error matches [ErrInvalidQuota].
func (q *Queue) SetQuotas(ctx context.Context, quotas ...Quota) error {
	if len(quotas) == 0 {
		return q.named(fmt.Errorf("%w: there is none to store; ForgetQuotas forgets the stored ones", ErrInvalidQuota))
	}
	all := make([]engine.Quota, len(quotas))
	for i, quota := range quotas {
		if err := quota.check(); err != nil {
			return q.named(err)
		}
		all[i] = engine.Quota(quota)
	}
	return q.named(q.setQuotas(ctx, all))
}

// ForgetQuotas undoes [Queue.SetQuotas]: every limiter goes by the quotas that it
// was made with.
func (q *Queue) ForgetQuotas(ctx context.Context) error {
	return q.named(q.setQuotas(ctx, nil))
}

func (q *Queue) setQuotas(ctx context.Context, quotas []engine.Quota) error {
	s, err := q.steerer()
	if err == nil {
		err = ready(ctx, "nothing was stored")
	}
	if err != nil {
		return err
	}
	return timeout.Do(ctx, func(ctx context.Context) error { return s.SetQuotas(ctx, quotas) })
}

// WithStoredQuota makes the limiter use the quotas that [Queue.SetQuotas] has
// stored, in place of its own. They lie beside the queue, in the key
// <prefix>{name}:quota. If none are stored, its own quotas hold. Redis runs one
// GET more for each question. After a change each process sends one question
// more.
//
// The key holds text that a person can read and write: "20/1s 100/2m burst 10";
// see [Quota.String]. If the text is not a quota, nobody goes: the error matches
// [ErrState]. If Redis loses the text, the next limiter that knows it writes it
// again. So to forget a quota, use [Queue.ForgetQuotas], not DEL.
func WithStoredQuota() Option {
	return func(o *options) { o.stored = true }
}
