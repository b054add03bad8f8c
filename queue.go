package fairlimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/duration"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/quotatext"
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
// and set quotas. If it is asked for permits, or a flow of it for its Status, the
// error matches [ErrNoQuota], unless Open was given [WithStoredQuota] and a quota
// is stored.
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

// steerable returns an error if the queue cannot be steered, or ctx has ended,
// and what that means.
func (q *Queue) steerable(ctx context.Context, means string) error {
	if q.steer == nil {
		return fmt.Errorf("%w: its queue cannot be steered", ErrUnsupported)
	}
	return ready(ctx, means)
}

// Quotas returns the quotas that hold for this limiter, and whether they are the
// stored ones: see [WithStoredQuota]. A Queue that [Open] made has no quotas of
// its own: it returns the stored ones.
//
// Quotas asks Redis, and restores what the server has lost, as Status does. A
// queue that was made with quotas and without WithStoredQuota has nothing to
// ask: then Redis hears nothing of what it has lost.
func (q *Queue) Quotas(ctx context.Context) (quotas []Quota, stored bool, err error) {
	if err := q.steerable(ctx, "nothing was asked"); err != nil {
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
		began := time.Now()
		a.quotas, a.stored, err = q.steer.Quotas(ctx)
		q.trace.asked("quotas", 1, began, err)
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
// What was consumed stays consumed, until it has left the longest Per of before
// the change. If the quotas become wider, turns that are held keep their slots.
// If they become narrower, these turns come later, by the ratio of the rates.
// Their callers learn of it as they learn of a [Queue.Pause], and turns that
// share a slot still go together.
//
// The quotas of units stand in the same text: those that are stored already if this
// queue was made WithStoredQuota, and else those of its [WithUnit] alone.
//
// It takes four questions to Redis. If that is gone once they are stored, the
// error matches [ErrOutcomeUnknown] and says so. If [Queue.Flow] made the
// queue, the quota is that of the flow.
//
// If a quota is invalid or none is given, the error matches [ErrInvalidQuota],
// and [ErrUnsupported] if they are too long with those of the units: 1,000
// bytes as text.
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
	if err := q.steerable(ctx, "nothing was stored"); err != nil {
		return err
	}
	if q.only != "" {
		return q.setCeiling(ctx, quotas)
	}
	return timeout.Do(ctx, q.trace.asks("set quotas", func(ctx context.Context) error {
		return q.steer.SetQuotas(ctx, quotas)
	}))
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
// again. So to forget a quota, use [Queue.ForgetQuotas], not DEL. The quotas of
// units stand behind semicolons: "60/1m; tokens 20000/1m". Those of [WithUnit]
// hold for units that the text does not name.
func WithStoredQuota() Option {
	return func(o *options) { o.stored = true }
}

// Quota is the upstream's rule: at most Permits in ANY window of length Per,
// however the window is placed in time.
//
// The zero value is not a quota: [New] refuses it. Per counts in whole
// microseconds. A finer Per is rounded up, which is the safe side.
type Quota struct {
	Permits int           // at least 1
	Per     time.Duration // at least a microsecond

	// Burst is at most how many permits go at one moment. With 100 permits a
	// minute and a Burst of 10, ten go together, and the next ten 6 s later: at
	// most Burst fall into any window of length Per × Burst ÷ Permits. Unlike the
	// burst of a token bucket it never makes a quota larger. 0 means Permits; 1
	// means evenly spaced.
	Burst int
}

// Every is one permit every d. The unit of d counts: [New] refuses Every(1),
// which is a nanosecond. For one a second, write Every(time.Second).
func Every(d time.Duration) Quota { return Quota{Permits: 1, Per: d} }

// PerSecond is n permits in any window of one second. They may go together:
// PerSecond(5) lets five callers go at the same moment, and then none until a
// second is over. To space them, use Every(200*time.Millisecond), or a Burst:
//
//	Quota{Permits: 5, Per: time.Second, Burst: 1}
func PerSecond(n int) Quota { return Quota{Permits: n, Per: time.Second} }

// PerMinute is n permits in any window of one minute. As with [PerSecond], they
// may go together.
func PerMinute(n int) Quota { return Quota{Permits: n, Per: time.Minute} }

// PerHour is n permits in any window of one hour. As with [PerSecond], they may
// go together.
func PerHour(n int) Quota { return Quota{Permits: n, Per: time.Hour} }

// String is the quota as a person would write it: "20/1s", "100/2m burst 10".
func (q Quota) String() string { return quotatext.Format(engine.Quota(q)) }

// ParseQuota reads what [Quota.String] writes. Per is written as for
// [time.ParseDuration], with sec, min, hour and day as further units, or as a
// unit alone: "10/s", "10 / min". For any other text the error matches
// [ErrInvalidQuota].
func ParseQuota(text string) (Quota, error) {
	parsed, err := quotatext.ParseOne(text)
	if err != nil {
		return Quota{}, fmt.Errorf("%w: %w", ErrInvalidQuota, err)
	}
	return Quota(parsed), nil
}

func (q Quota) check() error { return q.checkOf("") }

// checkOf is check for a quota that was given to what the text names.
func (q Quota) checkOf(given string) error {
	switch {
	case q.Permits < 1:
		return fmt.Errorf("%w: %sPermits is %d, want at least 1", ErrInvalidQuota, given, q.Permits)
	case q.Per <= 0:
		return fmt.Errorf("%w: %sPer is %v, want more than 0", ErrInvalidQuota, given, q.Per)
	case duration.Check(q.Per) != nil:
		return fmt.Errorf("%w: %sPer is %w", ErrInvalidQuota, given, duration.Check(q.Per))
	case q.Burst < 0 || q.Burst > q.Permits:
		return fmt.Errorf("%w: %sBurst is %d, want 0 to Permits, which is %d",
			ErrInvalidQuota, given, q.Burst, q.Permits)
	}
	return nil
}

// WithMaxQueued bounds how many permits this one [Limiter] value holds ahead. It
// counts the permits of callers that have no answer yet, of callers that sleep
// towards their turn, and of reservations whose slot is still to come. A Wait,
// WaitN or ReserveN that would bring them above n returns [ErrTooManyQueued] at
// once. It asks nothing and consumes nothing. 0, the default, means no bound.
//
// When more callers come than the quota lets go, the bound keeps one process
// from taking the whole queue, and its memory from filling with callers. It does
// not look at other processes: [WithMaxWait] bounds the queue of all. A call for
// more than n permits never fits, even if nobody waits.
//
// A reservation counts until its slot has passed or its Cancel has returned nil.
// A caller that leaves counts until it returns, even if its permits are still on
// their way back. Allow and AllowN hold nothing ahead, so they are neither counted
// nor refused. On window the bound is on the callers that wait.
func WithMaxQueued(n int) Option {
	return func(o *options) {
		if n < 0 {
			o.refuse("WithMaxQueued: %d is negative", n)
		}
		o.maxQueued = n
	}
}

// backlog counts the permits that a limiter holds ahead: of callers that wait, and
// of reservations until their slots. Nil counts nothing and has room for
// everything.
type backlog struct {
	most int

	mu   sync.Mutex
	held int
}

// newBacklog makes the backlog of [WithMaxQueued], nil for 0.
func newBacklog(most int) *backlog {
	if most == 0 {
		return nil
	}
	return &backlog{most: most}
}

// enter counts n permits, or returns [ErrTooManyQueued].
func (b *backlog) enter(n int) error {
	if b == nil {
		return nil
	}
	if n > b.most {
		return fmt.Errorf("%w: %d asked for, at most %d are allowed", ErrTooManyQueued, n, b.most)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.most-b.held {
		return fmt.Errorf("%w: %d asked for, %d of %d are held", ErrTooManyQueued, n, b.held, b.most)
	}
	b.held += n
	return nil
}

// leave ends what enter began.
func (b *backlog) leave(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}
