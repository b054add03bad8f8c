package speed

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

// row is one thing that is measured, ours beside a yardstick.
type row struct {
	name, unit string
	ours       side
	yardstick  string
	known      side
}

// The units: how long a call takes, and for how long the server is busy with a
// script, or with a call where many share a script.
const (
	perCall   = "µs/call"
	perScript = "server-µs/script"
	perGrant  = "server-µs/call"
)

// side is callers, each with what it calls, all of one new name.
type side func(rdb *redis.Client, name string) ([]call, error)

type call func(context.Context) error

// rows are in the order of the table.
var rows = []row{
	{"Wait, 1 caller", perCall, limiters(1, neverShort, wait), "redis_rate", redisRate(1, ample)},
	{"Wait, 1,024 callers of one limiter", perCall, callers(1024, neverShort, wait), "PING by 64", pings},
	{"Wait, 64 limiters of 1 caller", perCall, limiters(64, neverShort, wait), "redis_rate by 64", redisRate(64, ample)},
	script("never short", neverShort, reserve),
	script("queued", fairlimit.PerSecond(10), reserve),
	script("two quotas", fairlimit.PerSecond(20), reserve, fairlimit.WithExtraQuota(fairlimit.PerMinute(1000))),
	script("a Burst", fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 5}, reserve),
	script("two units", fairlimit.PerMinute(500), take, fairlimit.WithUnit("tokens", fairlimit.PerMinute(30_000))),
	script("a turn and its settlement", neverShort, settle, fairlimit.WithUnit("tokens", neverShort)),
	{"script: 16 flows", perScript, flows, "redis_rate", redisRate(16, ample)},
	{"script: refused", perScript, limiters(16, hourly, refused), "redis_rate", redisRate(16, never)},
	shared("one slot", neverShort),
	shared("a slot each", fairlimit.Quota{Permits: 1, Per: time.Millisecond}),
}

var (
	neverShort = fairlimit.PerSecond(1_000_000_000)
	hourly     = fairlimit.Quota{Permits: 1, Per: time.Hour}

	ample = redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	never = redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Hour} // refused, but for the first
)

// script is a row about a script that grants a turn, at once or ahead. Sixteen
// limiters keep the server busy, so its caches are warm.
func script(name string, q fairlimit.Quota, what func(*fairlimit.Queue) call, opts ...fairlimit.Option) row {
	return row{"script: " + name, perScript, limiters(16, q, what, opts...), "redis_rate", redisRate(16, ample)}
}

// shared is a row about a grant where many callers of one limiter share a
// question.
func shared(slots string, q fairlimit.Quota) row {
	name := "a grant of a question for 128: " + slots
	return row{name, perGrant, callers(128, q, reserve), "redis_rate", redisRate(16, ample)}
}

// limiters are callers with a limiter each, as in as many processes. No questions
// are combined.
func limiters(n int, quota fairlimit.Quota, what func(*fairlimit.Queue) call, opts ...fairlimit.Option) side {
	opts = append(opts, fairlimit.WithGuard(0))
	return func(rdb *redis.Client, name string) (all []call, err error) {
		for len(all) < n && err == nil {
			var q *fairlimit.Queue
			q, err = fairlimit.NewQueue(rdb, name, quota, opts...)
			all = append(all, what(q))
		}
		return all, err
	}
}

// callers have one limiter for all.
func callers(n int, quota fairlimit.Quota, what func(*fairlimit.Queue) call) side {
	return func(rdb *redis.Client, name string) ([]call, error) {
		one, err := limiters(1, quota, what)(rdb, name)
		return same(one[0], n), err
	}
}

func same(c call, n int) (all []call) {
	for range n {
		all = append(all, c)
	}
	return all
}

// flows has one flow for each caller. The quota is never short, since callers of
// a flow do not hold much ahead.
func flows(rdb *redis.Client, name string) (all []call, err error) {
	for flow := range 16 {
		of := limiters(1, neverShort, reserve, fairlimit.WithFlow(strconv.Itoa(flow), 1))
		one, failed := of(rdb, name)
		all, err = append(all, one...), errors.Join(err, failed)
	}
	return all, err
}

func wait(q *fairlimit.Queue) call { return q.Wait }

// reserve takes a turn, and does not wait for it.
func reserve(q *fairlimit.Queue) call {
	return func(ctx context.Context) error {
		_, err := q.ReserveN(ctx, 1)
		return err
	}
}

// take is reserve for a call and its tokens.
func take(q *fairlimit.Queue) call {
	return func(ctx context.Context) error {
		_, err := q.ReserveAmounts(ctx, fairlimit.Amounts{"tokens": 700})
		return err
	}
}

// settle takes a turn, and says what the call has really taken: two scripts.
func settle(q *fairlimit.Queue) call {
	return func(ctx context.Context) error {
		turn, err := q.Take(ctx, fairlimit.Amounts{"tokens": 700})
		if err != nil {
			return err
		}
		return turn.Settle(ctx, fairlimit.Amounts{"tokens": 300})
	}
}

// refused asks for a turn at once, of a queue that has none left after the first.
func refused(q *fairlimit.Queue) call {
	return func(ctx context.Context) error {
		_, err := q.Allow(ctx)
		return err
	}
}

func redisRate(n int, limit redis_rate.Limit) side {
	return func(rdb *redis.Client, name string) ([]call, error) {
		limiter := redis_rate.NewLimiter(rdb)
		return same(func(ctx context.Context) error {
			_, err := limiter.Allow(ctx, name, limit)
			return err
		}, n), nil
	}
}

func pings(rdb *redis.Client, _ string) ([]call, error) {
	return same(func(ctx context.Context) error { return rdb.Ping(ctx).Err() }, 64), nil
}
