package engines

import (
	"context"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// ByHand is a limiter with what its users write around it where the upstream
// wants nobody for a while: nobody in this process asks for a turn until then,
// and whoever is let through meanwhile goes only then. Other processes hear
// nothing of it.
type ByHand struct {
	Acquirer

	mu    sync.Mutex
	until time.Time
}

var _ Pauser = (*ByHand)(nil)

// Pause lets nobody in this process go.
func (b *ByHand) Pause(_ context.Context, d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.until) {
		b.until = until
	}
	return nil
}

// Acquire is the limiter's, with a wait before and after.
func (b *ByHand) Acquire(ctx context.Context, caller, n int) (*measure.Turn, error) {
	if err := b.sleep(ctx); err != nil {
		return nil, err
	}
	turn, err := b.Acquirer.Acquire(ctx, caller, n)
	if err != nil {
		return turn, err
	}
	return turn, b.sleep(ctx)
}

func (b *ByHand) sleep(ctx context.Context) error {
	for {
		b.mu.Lock()
		left := time.Until(b.until)
		b.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := clock.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

// rule is the quota of an engine that asks with it each time. It holds in this
// process.
type rule struct {
	mu    sync.Mutex
	quota scenario.Quota
}

// SetQuota is for the next to ask.
func (r *rule) SetQuota(_ context.Context, q scenario.Quota) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quota = q
	return nil
}

func (r *rule) holds() scenario.Quota {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quota
}
