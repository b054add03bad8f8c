package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// Limiter shares one quota among everybody who uses its name on the same Redis. It may be used by any number of goroutines, holds no
// connection, timer or goroutine while idle, and needs no closing.
//
// Every method checks ctx before it does anything, and returns when ctx ends, whatever the client's timeouts are. Errors of Redis are
// returned, never taken for leave to go. A call whose ctx can never end returns when the client gives up, or after five seconds
// if the client's ReadTimeout or WriteTimeout is longer than that.
type Limiter interface {
	// Wait sleeps until this caller's turn. A turn that would come after ctx's deadline is refused at once with a [*RefusedError] and consumes
	// nothing. A ctx that ends while Wait waits gives the permit back; the error then matches ctx's. It costs at most one script run and one
	// sleep on a queueing engine; on window, one of each for every time that it is refused.
	//
	// It never returns before the turn, and on an idle machine about a millisecond after it at most: a Go program that has nothing else to do
	// sleeps, on Linux, in whole milliseconds.
	Wait(ctx context.Context) error

	// WaitN is Wait for n ≥ 1 permits in one turn.
	WaitN(ctx context.Context, n int) error

	// Allow takes a permit now or not at all. It never queues: false changes nothing.
	Allow(ctx context.Context) (bool, error)

	// AllowN is Allow for n ≥ 1 permits.
	AllowN(ctx context.Context, n int) (bool, error)

	// Status reads how things stand and changes nothing.
	Status(ctx context.Context) (Status, error)

	// Reset forgets everything granted: the next caller finds an idle limiter, and those who sleep towards a turn still take it. It also clears
	// a key of another type or of an unreadable state; only the rate that window shares with Redisson stays as it is.
	Reset(ctx context.Context) error
}

// Reserver is what a [Limiter] on a queueing engine is as well: fair is, window is not.
type Reserver interface {
	Limiter

	// ReserveN takes the next turn for n ≥ 1 permits and returns at once; the caller sleeps Delay and goes, or cancels. ctx bounds the call, not
	// the turn; a turn further ahead than [WithMaxWait] is refused with a [*RefusedError].
	ReserveN(ctx context.Context, n int) (*Reservation, error)
}

// Status is how a limiter stood when it was asked.
type Status struct {
	Available int           // permits a caller could take right now without waiting
	Queued    int           // permits granted for the future; 0 for window
	Delay     time.Duration // the wait that one more permit would get now
}

// New makes a limiter for the quota, shared by name. It does no I/O. Several limiters of one name, in one process or in many, are one queue;
// they are meant to be given the same quotas, and while they are not (during a rolling deploy), every caller is held to its own.
func New(rdb redis.UniversalClient, name string, quota Quota, opts ...Option) (Limiter, error) {
	if engine.NoClient(rdb) {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	if err := quota.check(); err != nil {
		return nil, err
	}
	o := options{build: fair.New, maxWait: engine.Forever}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: nil option", ErrInvalidOption)
		}
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	e, err := o.engine(rdb, name, quota)
	if err != nil {
		return nil, err
	}
	l := &limiter{queue: queue{engine: e, prompt: bounded(rdb)}, maxWait: o.maxWait, held: o.held}
	if o.fallback != nil {
		l.backup = &backup{Fallback: o.fallback, outage: newOutage(e)}
		l.queue.engine, l.queue.outage = watched{e, l.backup.outage}, l.backup.outage
		l.queue.prompt = false // a caller must be able to leave
	}
	if e.Queues() {
		return &reserver{l}, nil
	}
	return l, nil
}

type limiter struct {
	queue   queue
	maxWait time.Duration
	held    *held
	backup  *backup // nil without a fallback
}

type reserver struct{ *limiter }

var (
	_ Limiter  = (*limiter)(nil)
	_ Reserver = (*reserver)(nil)
)

func (l *limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

func (l *limiter) WaitN(ctx context.Context, n int) error {
	if err := l.check(ctx, n); err != nil {
		return err
	}
	if l.backup != nil {
		return l.backup.wait(ctx, n, l.wait)
	}
	return l.wait(ctx, n)
}

func (l *limiter) wait(ctx context.Context, n int) error {
	if err := l.held.enter(n); err != nil {
		return err
	}
	defer l.held.leave(n)
	return l.queue.wait(ctx, n, l.maxWait)
}

func (l *limiter) Allow(ctx context.Context) (bool, error) { return l.AllowN(ctx, 1) }

func (l *limiter) AllowN(ctx context.Context, n int) (bool, error) {
	if err := l.check(ctx, n); err != nil {
		return false, err
	}
	if l.backup != nil {
		return l.backup.allow(ctx, n, l.allow)
	}
	return l.allow(ctx, n)
}

func (l *limiter) allow(ctx context.Context, n int) (bool, error) {
	_, err := l.queue.take(ctx, n, 0)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

func (r *reserver) ReserveN(ctx context.Context, n int) (*Reservation, error) {
	if err := r.check(ctx, n); err != nil {
		return nil, err
	}
	if r.backup != nil {
		if err := r.backup.outage.admit(); err != nil {
			return nil, err
		}
	}
	if err := r.held.enter(n); err != nil {
		return nil, err
	}
	turn, err := r.queue.take(ctx, n, r.maxWait)
	if err != nil {
		r.held.leave(n)
		return nil, err
	}
	reservation := &Reservation{queue: &r.queue, turn: turn, held: r.held, cancel: make(chan struct{}, 1)}
	r.held.keep(reservation)
	return reservation, nil
}

func (l *limiter) Status(ctx context.Context) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, left(ctx, "nothing was asked")
	}
	status, err := untilDone(ctx, l.queue.engine.Status)
	return Status(status), err
}

func (l *limiter) Reset(ctx context.Context) error {
	if ctx.Err() != nil {
		return left(ctx, "nothing was reset")
	}
	_, err := untilDone(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.queue.engine.Reset(ctx) })
	return err
}

func (l *limiter) check(ctx context.Context, n int) error {
	if ctx.Err() != nil {
		return left(ctx, "nothing was consumed")
	}
	if n < 1 {
		return fmt.Errorf("%w: %d asked for, want at least 1", ErrInvalidPermits, n)
	}
	return l.queue.engine.Fits(n)
}

// untilDone returns ctx's error when ctx ends first, whatever timeouts the client was made with. The call it leaves behind ends on its own.
func untilDone[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := call(ctx)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("%w: %w", ErrOutcomeUnknown, left(ctx, "the call was under way"))
	}
}

// left is the error of a caller whose ctx has ended; it matches ctx's error and its cause.
func left(ctx context.Context, what string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("fairlimit: %s: %w", what, cause)
	}
	return fmt.Errorf("fairlimit: %s: %w: %w", what, err, cause)
}
