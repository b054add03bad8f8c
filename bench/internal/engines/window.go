package engines

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/window"
)

var windowEngine = Engine{
	Name:   "window",
	About:  "Redisson's sliding window: a refused caller sleeps and asks again, with all the others",
	ByHand: map[string]string{"pause": pausedByHand, "quota": quotaByHand + " and makes a new limiter"},
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		open := func(q scenario.Quota) (*recorder, error) {
			l.Quota = q
			return record(window.New, rdb, name, l, now)
		}
		r, err := open(l.Quota)
		if err != nil {
			return nil, err
		}
		w := &windowed{open: open}
		w.now.Store(r)
		return w, nil
	},
	Keys: func(name string) []string { return []string{name, "{" + name + "}:value", "{" + name + "}:permits"} },
}

// windowed is made anew when its quota changes. Those who wait by then go on
// with the old one.
type windowed struct {
	open func(scenario.Quota) (*recorder, error)
	now  atomic.Pointer[recorder]
}

var (
	_ Resetter = (*windowed)(nil)
	_ Requoter = (*windowed)(nil)
)

func (w *windowed) Acquire(ctx context.Context, caller, n int) (*measure.Turn, error) {
	return w.now.Load().Acquire(ctx, caller, n)
}

func (w *windowed) Reset(ctx context.Context) error { return w.now.Load().Reset(ctx) }

func (w *windowed) SetQuota(_ context.Context, q scenario.Quota) error {
	q.Burst = 0
	r, err := w.open(q)
	if err == nil {
		w.now.Store(r)
	}
	return err
}
