package speed

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// sixteen limiters of one caller each keep a server busy.
const sixteen = 16

// queue is what the limiters of one name share.
type queue struct {
	*bed
	scene
	name    string
	engines []engine.Engine // at least sixteen, and one a flow
	asked   [sixteen]int    // how often each of sixteen callers has
	lost    atomic.Bool     // somebody was told of a loss
}

// queue makes limiters of a new name.
func (b *bed) queue(ctx context.Context, s scene, hooks ...redis.Hook) (*queue, error) {
	q := &queue{bed: b, scene: s, name: b.name()}
	quotas := must(quotatext.Parse(s.quotas))
	client := redis.NewClient(b.rdb.Options())
	for _, hook := range hooks {
		client.AddHook(hook)
	}
	for range max(sixteen, s.flows) {
		q.engines = append(q.engines, must(fair.New(engine.Config{
			Client: client, Name: q.name, Quota: quotas[0], Extra: quotas[1:], Stored: s.stored,
			Heard: func(n *engine.News) {
				if n.Lost {
					q.lost.Store(true)
				}
			},
		})))
	}
	if s.stored {
		if err := q.steerer().SetQuotas(ctx, quotas); err != nil {
			return nil, err
		}
	}
	if s.first != nil {
		return q, s.first(ctx, q)
	}
	return q, nil
}

func (q *queue) key() string { return "fairlimit:{" + q.name + "}" }

func (q *queue) steerer() engine.Steerer { return q.engines[0].(engine.Steerer) }

// take takes a turn for each number of permits in one question after the other,
// until all are granted.
func (q *queue) take(ctx context.Context, permits ...int) (taken []engine.Answer, err error) {
	requests := make([]engine.Request, len(permits))
	for i, n := range permits {
		requests[i] = q.request(0, n)
	}
	for len(taken) < len(requests) {
		answers, err := q.engines[0].Take(ctx, requests[len(taken):])
		if err != nil {
			return nil, err
		}
		for _, answer := range answers {
			if !answer.Granted {
				return nil, fmt.Errorf("a turn was refused: %w", answer.Err)
			}
		}
		taken = append(taken, answers...)
	}
	return taken, nil
}

// request is one of a limiter. All flows together may hold as much ahead as they
// like.
func (q *queue) request(limiter, permits int) engine.Request {
	r := engine.Request{N: permits, MaxWait: engine.Forever}
	if q.turn == refused {
		r.MaxWait = 0
	}
	if q.flows > 0 {
		r.Flow = &engine.Flow{ID: strconv.Itoa(limiter % q.flows), Weight: 1, LookAhead: billion}
	}
	return r
}

// everyNth are the grants of every nth answer.
func everyNth(answers []engine.Answer, n int) (grants []engine.Grant) {
	for i := 0; i < len(answers); i += n {
		grants = append(grants, answers[i].Grant)
	}
	return grants
}

// permits are those of n requests.
func permits(n int, of func() int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = of()
	}
	return all
}

// ready brings the queue into the scene's condition, and has each limiter ask
// once.
func (q *queue) ready(ctx context.Context) error {
	if q.before != nil {
		if err := q.before(ctx, q); err != nil {
			return err
		}
	}
	if q.turn == "" {
		return nil
	}
	return each(ctx, q.callers(), 1)
}

// callers are sixteen that ask.
func (q *queue) callers() (calls []call) {
	for i := range sixteen {
		calls = append(calls, func(ctx context.Context) error { return q.ask(ctx, i) })
	}
	return calls
}

// ask is one request of a caller, which has to get what the scene says. If there
// are more limiters than callers, it asks each of its own in turn.
func (q *queue) ask(ctx context.Context, caller int) error {
	limiter := (caller + sixteen*q.asked[caller]) % len(q.engines)
	q.asked[caller]++
	answers, err := q.engines[limiter].Take(ctx, []engine.Request{q.request(limiter, 1)})
	if err == nil && got(answers[0]) != q.turn {
		err = fmt.Errorf("a turn was %s, not %s", got(answers[0]), q.turn)
	}
	return err
}

// peer is redis_rate, which grants every request, or refuses every one.
func (b *bed) peer(turn turn) call {
	name, limiter := b.name(), redis_rate.NewLimiter(b.rdb)
	limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	if turn == refused {
		limit = redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Hour}
		_, _ = limiter.Allow(context.Background(), name, limit)
	}
	return func(ctx context.Context) error {
		result, err := limiter.Allow(ctx, name, limit)
		if err == nil && (result.Allowed == 0) != (turn == refused) {
			err = fmt.Errorf("redis_rate allowed %d; a turn is to be %s", result.Allowed, turn)
		}
		return err
	}
}
