package fairlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// learnEvery is how often all processes together store quotas that they learn.
const learnEvery = time.Minute

// LearnQuotas is [Queue.SetQuotas] for quotas that an upstream announces, such as
// in a header of each response. Everybody may call it, and often:
//
//   - If these quotas hold already, in any order, it costs one GET and stores
//     nothing.
//   - All processes together store at most once a minute, so that an upstream
//     whose replicas disagree does not requeue callers all the time. Within that
//     minute other quotas are ignored. Call again.
//   - A quota has the Burst of the one with the same Per that it replaces, but no
//     more than its permits. Others have none.
//   - Of several with the same Per the smallest counts.
//
// If [NewQueue] made the queue without [WithStoredQuota], the error matches
// [ErrInvalidOption]. Other errors are those of SetQuotas.
func (q *Queue) LearnQuotas(ctx context.Context, quotas ...Quota) error {
	if err := ready(ctx, "nothing was stored"); err != nil {
		return q.named(err)
	}
	if q.own != nil {
		return q.named(fmt.Errorf("%w: Learn needs a limiter made WithStoredQuota", ErrInvalidOption))
	}
	holding, _, err := q.Quotas(ctx)
	if err != nil && !errors.Is(err, ErrState) { // what cannot be read is replaced
		return err
	}
	holding, learned := inOrder(holding), inOrder(quotas)
	for i := range learned {
		for _, old := range holding {
			if old.Per == learned[i].Per {
				learned[i].Burst = min(old.Burst, learned[i].Permits)
			}
		}
	}
	if slices.Equal(holding, learned) {
		return nil
	}
	all, err := q.checked(learned)
	if err != nil {
		return err
	}
	return q.steer(ctx, "nothing was stored", "set quotas", func(ctx context.Context) (engine.News, error) {
		return q.queue.LearnQuotas(ctx, all, learnEvery)
	})
}

// inOrder returns the quotas by their Per, the smallest of each.
func inOrder(quotas []Quota) []Quota {
	sorted := slices.SortedFunc(slices.Values(quotas), func(a, b Quota) int {
		return cmp.Or(cmp.Compare(a.Per, b.Per), cmp.Compare(a.Permits, b.Permits))
	})
	return slices.CompactFunc(sorted, func(a, b Quota) bool { return a.Per == b.Per })
}
