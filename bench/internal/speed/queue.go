package speed

import (
	"context"
	"errors"
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

// scene is a queue in some condition. One request of one permit is measured in
// it.
type scene struct {
	what   string
	goal   Goal   // zero for none
	quotas string // as package quotatext reads them
	flows  int    // the limiters are of so many
	stored bool
	turn   turn // what every request gets

	// first brings the queue into its condition, and before does so before each
	// round. Both make sure that it is in it.
	first, before step
}

// step brings a queue into a condition.
type step func(context.Context, *queue) error

func (s step) on(q *queue) call { return func(ctx context.Context) error { return s(ctx, q) } }

// turn is what a request gets.
type turn string

const (
	atOnce  turn = "granted at once"
	queued  turn = "granted ahead"
	refused turn = "refused"
	paused  turn = "granted behind a pause"
)

// got says what the answer is.
func got(a engine.Answer) turn {
	switch {
	case !a.Granted:
		return refused
	case a.Paused > 0:
		return paused
	case a.Wait > 0:
		return queued
	default:
		return atOnce
	}
}

const (
	billion = 1_000_000_000

	// ample is never short.
	ample    = "1000000000/1s"
	secondly = "10/1s"

	// eight are as many windows as a limiter may have.
	eight = "10/1s 19/2s 45/5s 85/10s 240/30s 450/1m 2100/5m 23000/1h"
)

// scenes are what people configure, and what befalls a queue.
var scenes = []scene{
	{what: "one quota, never short", goal: ratioAtMost(2), quotas: ample, turn: atOnce},
	{what: "one quota, queued, 1 a ms", goal: ratioAtMost(2), quotas: "1/1ms", turn: queued, first: hold(10_000)},
	{what: "one quota, queued, 10 a second", quotas: secondly, turn: queued, first: hold(100)},
	{what: "one quota, refused", goal: ratioAtMost(1.2), quotas: "100/1h", turn: refused, first: hold(100)},
	{what: "one quota, crowded, saturated", goal: ratioAtMost(1.5), quotas: "1000/1s", turn: queued, first: crowd},
	{what: "two quotas, never short", goal: ratioAtMost(2.5), quotas: "1000000000/1m 100000000/1s", turn: atOnce},
	{what: "two quotas, queued", goal: ratioAtMost(2.5), quotas: "1000/1m 20/1s", turn: queued, first: hold(200)},
	{
		what: "three quotas, never short", goal: ratioAtMost(3.5), turn: atOnce,
		quotas: "1000000000/1h 1000000000/1m 100000000/1s",
	},
	{
		what: "three quotas, queued", goal: ratioAtMost(3.5), turn: queued, first: hold(200),
		quotas: "30000/1h 1000/1m 20/1s",
	},
	{what: "a Burst, never short", goal: ratioAtMost(3), quotas: "1000000000/1m burst 10000000", turn: atOnce},
	{what: "a Burst, queued", goal: ratioAtMost(3), quotas: "20/1s burst 5", turn: queued, first: hold(100)},
	{what: "4 flows, never short", goal: ratioAtMost(3.5), quotas: ample, flows: 4, turn: atOnce},
	{what: "4 flows, queued", goal: ratioAtMost(3.5), quotas: secondly, flows: 4, turn: queued, first: hold(100)},
	{what: "16 flows, never short", goal: ratioAtMost(4), quotas: ample, flows: 16, turn: atOnce},
	{what: "16 flows, queued", goal: ratioAtMost(4), quotas: secondly, flows: 16, turn: queued, first: hold(100)},
	{what: "1,000 flows, queued", goal: ratioAtMost(6), quotas: secondly, flows: 1000, turn: queued, first: everyFlow},
	{what: "stored quota, never short", goal: ratioAtMost(2.5), quotas: ample, stored: true, turn: atOnce},
	{what: "in a pause", goal: ratioAtMost(6), quotas: secondly, turn: paused, first: inPause},
	{what: "after a pause", goal: ratioAtMost(2.5), quotas: secondly, turn: queued, first: afterPause},
	{what: "after returns", goal: ratioAtMost(3), quotas: secondly, turn: queued, first: hold(100), before: afterReturns},
	{what: "after a loss", goal: ratioAtMost(6), quotas: secondly, turn: queued, first: hold(100), before: afterLoss},
}

// hold takes so many permits.
func hold(n int) step {
	return func(ctx context.Context, q *queue) error {
		_, err := q.take(ctx, permits(n, one)...)
		return err
	}
}

// everyFlow takes a turn in each flow, behind others.
func everyFlow(ctx context.Context, q *queue) error {
	err := hold(100)(ctx, q)
	for range len(q.engines)/sixteen + 1 {
		err = errors.Join(err, each(ctx, q.callers(), 1))
	}
	return err
}

// crowd takes a permit each millisecond for the length of the scale's window,
// and then lets the quota run out.
func crowd(ctx context.Context, q *queue) error {
	if err := paced(ctx, int(q.Window/time.Millisecond), time.Millisecond, hold(1).on(q)); err != nil {
		return err
	}
	return hold(10_000)(ctx, q)
}

func inPause(ctx context.Context, q *queue) error {
	return errors.Join(hold(100)(ctx, q), q.steerer().Pause(ctx, time.Hour))
}

func afterPause(ctx context.Context, q *queue) error {
	const pause = 200 * time.Millisecond
	err := errors.Join(hold(100)(ctx, q), q.steerer().Pause(ctx, pause), hold(1)(ctx, q))
	time.Sleep(pause)
	return err
}

// afterReturns gives every second of a hundred turns back.
func afterReturns(ctx context.Context, q *queue) error {
	taken, err := q.take(ctx, permits(100, one)...)
	if err != nil {
		return err
	}
	return q.engines[0].GiveBack(ctx, everyNth(taken, 2))
}

// silence is longer than a server is given to have lost nothing.
const silence = 120 * time.Millisecond

// afterLoss goes back to an earlier state of the queue.
func afterLoss(ctx context.Context, q *queue) error {
	before, err := q.rdb.Dump(ctx, q.key()).Result()
	if err != nil {
		return err
	}
	ttl := q.rdb.PTTL(ctx, q.key()).Val()
	if err := each(ctx, q.callers(), 1); err != nil {
		return err
	}
	time.Sleep(silence)
	if err := q.rdb.RestoreReplace(ctx, q.key(), ttl, before).Err(); err != nil {
		return err
	}
	q.lost.Store(false)
	if _, err = q.take(ctx, 1); err == nil && !q.lost.Load() {
		err = errors.New("nobody was told of a loss")
	}
	return err
}
