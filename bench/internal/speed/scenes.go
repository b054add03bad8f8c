package speed

import (
	"context"
	"errors"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

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
