package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Quotas are those of a queue: of calls, and of further units. The zero value
// has none.
type Quotas struct {
	Calls []engine.Quota
	Units []engine.Unit
}

// Add reads further ones from a text such as "60/1m; tokens 20000/1m".
func (q *Quotas) Add(text string) error {
	calls, units, err := quotatext.ParseAll(text)
	if err == nil && len(calls) == 0 {
		err = errors.New("no quota")
	}
	q.Calls, q.Units = append(q.Calls, calls...), append(q.Units, units...)
	return err
}

// ParseQuotas reads those of a queue whose units requests can name.
func ParseQuotas(text string) (q Quotas, err error) {
	if err := q.Add(text); err != nil {
		return q, err
	}
	for _, u := range q.Units {
		if has(notUnits, u.Name) {
			return q, fmt.Errorf("unit %q: it needs another name, requests have a parameter %s", u.Name, u.Name)
		}
	}
	return q, nil
}

// Duration reads one that is more than 0.
func Duration(text string) (time.Duration, error) {
	d, err := quotatext.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("want more than 0")
	}
	return d, err
}

// Queue makes a queue that keeps them all. Without any for calls it goes by what
// is stored.
func (q *Quotas) Queue(
	rdb redis.UniversalClient, name string, opts ...fairlimit.Option,
) (*fairlimit.Queue, error) {
	opts = append(opts, q.UnitOptions()...)
	if len(q.Calls) == 0 {
		return fairlimit.Open(rdb, name, append(opts, fairlimit.WithStoredQuota())...)
	}
	calls := quotasOf(q.Calls)
	for _, extra := range calls[1:] {
		opts = append(opts, fairlimit.WithExtraQuota(extra))
	}
	return fairlimit.NewQueue(rdb, name, calls[0], opts...)
}

// Store stores those of calls; the units are those of the queue.
func (q *Quotas) Store(ctx context.Context, queue *fairlimit.Queue) error {
	return queue.SetQuotas(ctx, quotasOf(q.Calls)...)
}

// UnitOptions are for a queue that has the further units.
func (q *Quotas) UnitOptions() (opts []fairlimit.Option) {
	for _, u := range q.Units {
		opts = append(opts, fairlimit.WithUnit(u.Name, quotasOf(u.Quotas)...))
	}
	return opts
}

func quotasOf(read []engine.Quota) []fairlimit.Quota {
	quotas := make([]fairlimit.Quota, len(read))
	for i, q := range read {
		quotas[i] = fairlimit.Quota(q)
	}
	return quotas
}
