package kubelimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/fairlimit/fairlimit"
)

// Delays between the attempts of an item while Redis fails, unless
// [ItemRateLimiter.Otherwise] says otherwise.
const (
	shortestOtherwise = time.Second
	longestOtherwise  = 5 * time.Minute
)

// Reserver is what an [ItemRateLimiter] needs: a [*fairlimit.Queue] is one.
type Reserver interface {
	ReserveN(ctx context.Context, n int) (*fairlimit.Reservation, error)
}

// ItemRateLimiter is a [workqueue.TypedRateLimiter]: each item that is added
// again takes a turn, and comes out of the work queue when its turn comes.
// Queues in all processes that share the Reserver's name share its quota.
//
// It counts how often each item was added, until Forget. It may be used by any
// number of goroutines and must not be copied. The fields must not be changed
// after the first call.
type ItemRateLimiter[T comparable] struct {
	// Reserver gives the turns. Without one, Otherwise decides and OnError is
	// told an error that matches [fairlimit.ErrInvalidOption]. It should have no
	// flow: with one, When waits until the flow has room, and Otherwise decides
	// after five seconds.
	Reserver Reserver

	// Otherwise says how long an item waits that got no turn within five
	// seconds, mostly because Redis failed or did not answer. The item then
	// comes without a turn, since a work queue cannot do without an answer. Nil
	// means a delay that grows each time that the item is added, until Forget: 1 s,
	// 2 s, 4 s, and so on up to 5 minutes.
	Otherwise workqueue.TypedRateLimiter[T]

	// OnError is told why an item got no turn. It may run several times at once.
	// Nil means that nobody is told.
	OnError func(error)

	once  sync.Once
	added workqueue.TypedRateLimiter[T] // counts, and knows the delay
}

var _ workqueue.TypedRateLimiter[string] = (*ItemRateLimiter[string])(nil)

// When takes the next turn for the item and returns how long it is until then.
// It costs one question to Redis. A limiter that refuses because of
// [fairlimit.WithMaxWait] takes no turn: the item waits as long as its turn
// would have taken to come.
func (l *ItemRateLimiter[T]) When(item T) time.Duration {
	delay := l.count().When(item)
	turn, err := l.reserve()
	if err == nil {
		return turn.Delay()
	}
	if l.OnError != nil {
		l.OnError(err)
	}
	var refused *fairlimit.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Wait
	case l.Otherwise != nil:
		return l.Otherwise.When(item)
	}
	return delay
}

// NumRequeues is how often When was asked for the item since it was forgotten.
func (l *ItemRateLimiter[T]) NumRequeues(item T) int { return l.count().NumRequeues(item) }

// Forget ends the count of the item. A turn that lies ahead stays taken: the
// item is in the work queue and will use it.
func (l *ItemRateLimiter[T]) Forget(item T) {
	l.count().Forget(item)
	if l.Otherwise != nil {
		l.Otherwise.Forget(item)
	}
}

func (l *ItemRateLimiter[T]) count() workqueue.TypedRateLimiter[T] {
	l.once.Do(func() {
		l.added = workqueue.NewTypedItemExponentialFailureRateLimiter[T](shortestOtherwise, longestOtherwise)
	})
	return l.added
}

func (l *ItemRateLimiter[T]) reserve() (*fairlimit.Reservation, error) {
	if l.Reserver == nil {
		return nil, errNoLimiter
	}
	ctx, cancel := context.WithTimeout(context.Background(), askBound)
	defer cancel()
	return l.Reserver.ReserveN(ctx, 1)
}
