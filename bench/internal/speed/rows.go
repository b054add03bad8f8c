package speed

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	redisRate = "redis_rate"
	busy      = "µs" // of the server
)

// rows are in the order of the table: first what needs the processors, since those
// of the scripts leave many turns behind that lie ahead. Never short is a billion
// permits a second.
var rows = []row{
	{
		"call", "Wait, 1 caller", "µs", redisRate + "'s Allow",
		callTime(peers(1, ample)), callTime(oneLimiter(1, waiting)), atMost(1.4),
	},
	{
		"call", "Wait, 1,024 callers, one process", "a second", "PING by 64 goroutines",
		perSecond(pings(64)), perSecond(oneLimiter(1024, waiting)), atLeast(12),
	},
	{
		"call", "Wait, 64 limiters of 1 caller", "a second", redisRate + " by 64 goroutines",
		perSecond(peers(64, ample)), perSecond(limitersApart(64, quotas("1000000000/1s"), waiting)), atLeast(0.6),
	},
	{"call", "a turn that is settled, 1 caller", "scripts", "", nil, scriptsOf(settling), Goal{}},
	{"size", "memory of 2,000 callers that wait", "MB", "", nil, memory, atMost(40)},
	granted("one quota, never short", quotas("1000000000/1s"), atMost(3)),
	granted("one quota, queued, 1 a ms", quotas("1/1ms"), atMost(3.5)),
	granted("one quota, queued, 10 a second", quotas("10/1s"), atMost(3.5)),
	granted("two quotas, queued", quotas("20/1s", "1000/1m"), atMost(3.5)),
	granted("a Burst, queued", quotas("20/1s burst 5"), atMost(3.5)),
	granted("two units, queued", units, atMost(4.5)),
	granted("16 flows, never short", flows, atMost(4)),
	granted("in a pause", inPause, atMost(3.5)),
	granted("after a pause", afterPause, atMost(3.5)),
	{"script", "refused", busy, redisRate, serverTime(1, peers(sixteen, hourly)), serverTime(1, refusals), atMost(2)},
	{
		"script", "a grant, 128 callers of one limiter", busy, redisRate,
		serverTime(1, peers(sixteen, ample)), serverTime(128, oneLimiter(128, reserving)), atMost(0.7),
	},
	{"size", "Redis, a queue of 20,000 turns", "KB", "", nil, bytesInRedis, atMost(60)},
}

// granted is a row about what a script costs the server that grants a turn, at
// once or ahead. Sixteen limiters keep the server busy, so its caches are warm.
func granted(what string, of opener, goal Goal) row {
	return row{
		"script", what, busy, redisRate,
		serverTime(1, peers(sixteen, ample)), serverTime(1, limitersApart(sixteen, of, reserving)), goal,
	}
}

const sixteen = 16

// serverTime is for how long the server is busy with a script, or with each of
// the callers together that one may be for.
func serverTime(together int, of callers) side {
	return func(ctx context.Context, b *bed, l loop) (float64, error) {
		d, err := b.do(ctx, of, l)
		if together > 1 {
			return d.Micros / d.calls, err
		}
		return d.Micros / d.Runs, err
	}
}

// scriptsOf is how many scripts the server runs for a call.
func scriptsOf(of callers) side {
	return func(ctx context.Context, b *bed, l loop) (float64, error) {
		d, err := b.do(ctx, of, l)
		return d.Runs / d.calls, err
	}
}

// callTime is how long a call takes a single caller, in µs.
func callTime(of callers) side {
	return func(ctx context.Context, b *bed, l loop) (float64, error) {
		d, err := b.do(ctx, of, l)
		return d.seconds * 1e6 / d.calls, err
	}
}

// perSecond is how many calls all callers get through.
func perSecond(of callers) side {
	return func(ctx context.Context, b *bed, l loop) (float64, error) {
		d, err := b.do(ctx, of, l)
		return d.calls / d.seconds, err
	}
}

// memory is what callers take that wait for turns far ahead.
func memory(ctx context.Context, b *bed, l loop) (mb float64, err error) {
	const many = 2000
	inUse := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc+m.StackInuse) / 1e6
	}
	for l.Loop() {
		q, err := quotas("1/1s")(b, b.name(), 0)
		if err != nil {
			return 0, err
		}
		before := inUse()
		waits, leave := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range many {
			all.Go(func() { _ = q.Wait(waits) })
		}
		for queued := 0; queued < many-10 && err == nil; time.Sleep(100 * time.Millisecond) {
			var s fairlimit.Status
			s, err = q.Status(ctx)
			queued = s.Queued
		}
		mb = inUse() - before
		leave()
		all.Wait()
		if err != nil {
			return 0, err
		}
	}
	return mb, nil
}

// bytesInRedis are those of a long queue.
func bytesInRedis(ctx context.Context, b *bed, l loop) (kb float64, err error) {
	name := b.name()
	q, err := quotas("10/1s")(b, name, 0)
	if err == nil {
		err = each(ctx, same(reserving(q), 200), 100)
	}
	for l.Loop() && err == nil {
		kb, err = b.kilobytes(ctx, name)
	}
	return kb, err
}
