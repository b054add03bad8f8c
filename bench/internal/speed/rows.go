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
// of the scripts leave many turns behind that lie ahead.
var rows = []row{
	{
		"call", "Wait, 1 caller", "µs", redisRate + "'s Allow",
		of(peers(1, ample), callTime), of(oneLimiter(1, neverShort, waiting), callTime), atMost(1.4),
	},
	{
		"call", "Wait, 1,024 callers, one process", "a second", "PING by 64 goroutines",
		of(pings(64), perSecond), of(oneLimiter(1024, neverShort, waiting), perSecond), atLeast(12),
	},
	{
		"call", "Wait, 64 limiters of 1 caller", "a second", redisRate + " by 64 goroutines",
		of(peers(64, ample), perSecond), of(limitersApart(64, neverShort, waiting), perSecond), atLeast(0.6),
	},
	{"call", "a turn that is settled, 1 caller", "scripts", "", nil, of(settling, scripts), Goal{}},
	{"size", "memory of 2,000 callers that wait", "MB", "", nil, memory, atMost(40)},
	granted("one quota, never short", neverShort, atMost(3)),
	granted("one quota, queued, 1 a ms", quotas("1/1ms"), atMost(3.5)),
	granted("one quota, queued, 10 a second", quotas("10/1s"), atMost(3.5)),
	granted("two quotas, queued", quotas("20/1s", "1000/1m"), atMost(3.5)),
	granted("a Burst, queued", quotas("20/1s burst 5"), atMost(3.5)),
	{
		"script", "two units, queued", busy, redisRate,
		of(peers(sixteen, ample), perScript), of(limitersApart(sixteen, units, reservingTokens), perScript), atMost(4.5),
	},
	granted("16 flows, never short", flows, atMost(4)),
	granted("in a pause", inPause, atMost(3.5)),
	granted("after a pause", afterPause, atMost(3.5)),
	{"script", "refused", busy, redisRate, of(peers(sixteen, hourly), perScript), of(refusals, perScript), atMost(2)},
	shared("never short", neverShort),
	shared("1 a ms", quotas("1/1ms")),
	{"size", "Redis, a queue of 20,000 turns", "KB", "", nil, bytesInRedis, atMost(60)},
}

// granted is a row about what a script costs the server that grants a turn, at
// once or ahead. Sixteen limiters keep the server busy, so its caches are warm.
func granted(what string, open opener, goal Goal) row {
	return row{
		"script", what, busy, redisRate,
		of(peers(sixteen, ample), perScript), of(limitersApart(sixteen, open, reserving), perScript), goal,
	}
}

// shared is a row about what a grant costs the server when many callers share a
// question.
func shared(what string, open opener) row {
	return row{
		"script", "a grant, 128 callers of one limiter, " + what, busy, redisRate,
		of(peers(sixteen, ample), perScript), of(oneLimiter(128, open, reserving), perCall), atMost(0.7),
	}
}

const sixteen = 16

// neverShort is a quota of a billion a second.
var neverShort = quotas("1000000000/1s")

// of is a side that has callers call, and makes a figure of what was done.
func of(all callers, figure func(done) float64) side {
	return func(ctx context.Context, b *bed, l loop) (float64, error) {
		d, err := b.do(ctx, all, l)
		return figure(d), err
	}
}

// These are for how long the server is busy with a script, or with a call when
// several share one; how many scripts it runs for a call; how long a call takes a
// single caller, in µs; and how many calls all callers get through.
func perScript(d done) float64 { return d.Micros / d.Runs }
func perCall(d done) float64   { return d.Micros / d.calls }
func scripts(d done) float64   { return d.Runs / d.calls }
func callTime(d done) float64  { return d.seconds * 1e6 / d.calls }
func perSecond(d done) float64 { return d.calls / d.seconds }

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
