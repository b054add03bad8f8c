package fairlimit

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

// Queue is a [Limiter] on an engine that grants turns ahead, as fair does. It
// can reserve turns, pause the queue for everybody, and change its quotas.
// [New] returns one on such an engine.
type Queue struct{ *limiter }

var _ Reserver = (*Queue)(nil)

// NewQueue is [New] for an engine that grants turns ahead. On another engine,
// as window is, it returns [ErrUnsupported].
func NewQueue(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (*Queue, error) {
	l, err := New(rdb, name, quota, opts...)
	if err != nil {
		return nil, err
	}
	return queueOf(l)
}

// Open is [NewQueue] for those who know only the name: it can look, pause,
// reset and set quotas. Asked for permits it returns [ErrNoQuota], unless it was
// opened [WithStoredQuota] and a quota is stored.
func Open(rdb redis.UniversalClient, name string, opts ...Option) (*Queue, error) {
	l, err := build(rdb, name, Quota{}, func() error { return nil }, opts)
	if err != nil {
		return nil, err
	}
	return queueOf(l)
}

func queueOf(l Limiter) (*Queue, error) {
	q, ok := l.(*Queue)
	if !ok {
		return nil, fmt.Errorf("%w: it grants no turns ahead, so it has no queue", ErrUnsupported)
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

// Quotas returns the quotas that hold for this limiter, and whether they are
// stored ones: see [WithStoredQuota]. It asks Redis.
//
// A queue that [Open] made has none of its own and tells those that are stored.
func (q *Queue) Quotas(ctx context.Context) (quotas []Quota, stored bool, err error) {
	s, err := q.steerer()
	if err == nil {
		err = ready(ctx, "nothing was asked")
	}
	if err != nil {
		return nil, false, q.named(err)
	}
	type answer struct {
		quotas []engine.Quota
		stored bool
	}
	a, err := within(ctx, func(ctx context.Context) (a answer, err error) {
		a.quotas, a.stored, err = s.Quotas(ctx)
		return a, err
	})
	for _, q := range a.quotas {
		quotas = append(quotas, Quota(q))
	}
	return quotas, a.stored, q.named(err)
}

// SetQuotas stores quotas for all limiters of the name that were made
// [WithStoredQuota], on all machines, instead of those that they were made with.
// The first decision of each after the change obeys it.
//
// What was consumed stays consumed. If the quotas become wider, turns that are
// held keep their slots. If they become narrower, those turns come later, by
// the ratio of the rates; their callers learn it as they learn of a
// [Queue.Pause]. From [WithPauseWithin] after the change on, no window of the
// new quotas is exceeded. There is one exception: if a window of the old quotas
// held more than the new Permits, a new window may hold as many as an old one
// did, until the held turns are gone. The rate is the new one all the same.
func (q *Queue) SetQuotas(ctx context.Context, quotas ...Quota) error {
	if len(quotas) == 0 {
		return fmt.Errorf("%w: none to store; ForgetQuotas forgets those that are", ErrInvalidQuota)
	}
	all := make([]engine.Quota, len(quotas))
	for i, q := range quotas {
		if err := q.check(); err != nil {
			return err
		}
		all[i] = engine.Quota(q)
	}
	return q.named(q.setQuotas(ctx, all))
}

// ForgetQuotas ends what SetQuotas began: every limiter goes by the quotas that
// it was made with.
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
	_, err = within(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.SetQuotas(ctx, quotas)
	})
	return err
}

// WithStoredQuota lets quotas that [Queue.SetQuotas] has stored beside the
// queue, in the key <prefix>{name}:quota, take the place of the limiter's own.
// If none are stored, its own hold. It costs a busy Redis one GET more a
// question, and each process one question more after a change.
//
// The key holds text that a person can read and write: "20/1s 100/2m burst 10";
// see [Quota.String]. Text that is no quota is [ErrState], and nobody goes. A
// stored quota that Redis has lost is written again by the next limiter that
// knows it. So to forget one, use [Queue.ForgetQuotas], not DEL.
func WithStoredQuota() Option {
	return func(o *options) { o.stored = true }
}
