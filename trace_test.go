package fairlimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// events are the names of the events that a trace was told, in their order.
type events struct {
	mu  sync.Mutex
	all []string
}

// trace writes down every event.
func (e *events) trace() *fairlimit.Trace {
	t := &fairlimit.Trace{}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.all = append(e.all, name)
			return nil
		}))
	}
	return t
}

// of returns the events of the names given, and forgets all.
func (e *events) of(names ...string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var of []string
	for _, name := range e.all {
		for _, want := range names {
			if name == want {
				of = append(of, name)
			}
		}
	}
	e.all = nil
	return of
}

func TestATraceIsToldOfACallerFromWhenItEntersToWhenItLeaves(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) {
		seen := &events{}
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(2), e, fairlimit.WithTrace(seen.trace()))
		require.NoError(t, err)
		story := []string{"Entered", "Left", "Granted", "Taken", "Refused"}

		require.NoError(t, l.WaitN(t.Context(), 2))
		assert.Equal(t, []string{"Entered", "Granted", "Taken", "Left"}, seen.of(story...))

		ctx := within(t, time.Minute)
		require.ErrorAs(t, l.Wait(ctx), new(*fairlimit.RefusedError))
		assert.Equal(t, []string{"Entered", "Refused", "Left"}, seen.of(story...))

		ok, err := l.Allow(t.Context())
		assert.False(t, ok)
		require.NoError(t, err)
		assert.Equal(t, []string{"Refused"}, seen.of(story...), "Allow does not wait")

		require.ErrorIs(t, l.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)
		assert.Empty(t, seen.of(story...), "what can never be granted never enters")
	})
}

func TestATraceIsToldHowLongACallerWaitedAndWhatBecameOfIt(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var waits []string
		l := limiter(t, rdb, fairlimit.PerSecond(1), fairlimit.WithTrace(&fairlimit.Trace{
			Left: func(permits int, waited time.Duration, err error) {
				waited = waited.Round(10 * time.Millisecond)
				waits = append(waits, fmt.Sprint(permits, waited, err == nil, errors.Is(err, context.Canceled)))
			},
		}))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		require.ErrorIs(t, l.Wait(ctx), context.Canceled)
		assert.Equal(t, []string{"1 0s true false", "1 1s true false", "1 300ms false true"}, waits)
	})
}

func TestATraceIsToldOfReservations(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		seen := &events{}
		l := limiter(t, rdb, fairlimit.Every(time.Minute), fairlimit.WithTrace(seen.trace()))
		story := []string{"Reserved", "Unreserved", "Entered", "Left", "Granted"}

		now, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, []string{"Granted", "Reserved"}, seen.of(story...))
		require.NoError(t, now.Wait(t.Context()))
		assert.Equal(t, []string{"Unreserved", "Entered", "Left"}, seen.of(story...))

		later, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, later.Cancel(t.Context()))
		require.NoError(t, later.Cancel(t.Context()))
		assert.Equal(t, []string{"Granted", "Reserved", "Unreserved"}, seen.of(story...), "it is cancelled once")
	})
}

// TestATraceIsToldOfEachQuestion has a queue of which Redis loses what it knew.
func TestATraceIsToldOfEachQuestion(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var mu sync.Mutex
		var asked, rest []string
		note := func(where *[]string, what ...any) {
			mu.Lock()
			defer mu.Unlock()
			*where = append(*where, fmt.Sprint(what...))
		}
		quota, trace := fairlimit.Every(10*time.Second), fairlimit.WithTrace(&fairlimit.Trace{
			Asked: func(op string, callers int, _ time.Duration, err error) {
				note(&asked, op, " for ", callers, " ", err == nil)
			},
			GivenBack: func(permits int, err error) { note(&rest, "given back ", permits, " ", err == nil) },
			Paused:    func(d time.Duration) { note(&rest, "paused ", d) },
			Lost:      func() { note(&rest, "lost") },
		})
		q := limiter(t, rdb, quota, trace).(*fairlimit.Queue)
		told := func(questions []string, more ...string) {
			t.Helper()
			synctest.Wait() // for a look
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, questions, asked)
			assert.Equal(t, more, rest)
			asked, rest = nil, nil
		}
		require.NoError(t, q.Wait(t.Context()))
		told([]string{"take for 1 true"})
		require.NoError(t, q.Wait(t.Context()))
		told([]string{"take for 1 true", "look for 1 true"})

		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, q.WaitN(ctx, 1), context.Canceled)
		told([]string{"take for 1 true", "release for 1 true"}, "given back 1 true")

		require.NoError(t, q.Pause(t.Context(), 3*time.Second))
		told([]string{"pause for 1 true"}, "paused 3s")
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		_, err := q.Status(t.Context())
		require.NoError(t, err)
		told([]string{"status for 1 true"}, "lost")
		require.NoError(t, q.Reset(t.Context()))
		told([]string{"reset for 1 true"})
		quotas, stored, err := q.Quotas(t.Context())
		require.NoError(t, err)
		require.False(t, stored)
		require.Equal(t, []fairlimit.Quota{quota}, quotas)
		told(nil)
		_, _, err = limiter(t, rdb, quota, trace, fairlimit.WithStoredQuota()).(*fairlimit.Queue).Quotas(t.Context())
		require.NoError(t, err)
		told([]string{"quotas for 1 true"})
		require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(2)))
		told([]string{"set quotas for 1 true"})
	})
}

// logTo is a logger of lines without their time, from a level up.
func logTo(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	lines := &bytes.Buffer{}
	return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), lines
}

func TestALogTraceWritesEachEventAtItsLevel(t *testing.T) {
	l, lines := logTo(slog.LevelDebug)
	trace := fairlimit.LogTrace(l.With("limiter", "tax-office"))
	broken := errors.New("broken")
	slot := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		level, event, attributes string
		tell                     func()
	}{
		{"DEBUG", "caller waits", "permits=2", func() { trace.Entered(2) }},
		{"DEBUG", "caller leaves", "permits=2 waited=1s", func() { trace.Left(2, time.Second, nil) }},
		{"DEBUG", "caller leaves", "permits=2 waited=1s error=broken", func() { trace.Left(2, time.Second, broken) }},
		{"DEBUG", "turn granted", "permits=2 wait=1s", func() { trace.Granted(2, time.Second) }},
		{"DEBUG", "reserved", "permits=2 slot=2030-01-02T03:04:05.000Z", func() { trace.Reserved(2, slot) }},
		{"DEBUG", "unreserved", "permits=2 slot=2030-01-02T03:04:05.000Z", func() { trace.Unreserved(2, slot) }},
		{"DEBUG", "refused", "permits=2 error=broken", func() { trace.Refused(2, broken) }},
		{"DEBUG", "turn taken", "permits=2 lateness=1ms confirmed=true", func() {
			trace.Taken(2, time.Millisecond, true)
		}},
		{"WARN", "turn missed", "permits=2 lateness=1s", func() { trace.Missed(2, time.Second) }},
		{"DEBUG", "given back", "permits=2", func() { trace.GivenBack(2, nil) }},
		{"DEBUG", "given back", "permits=2 error=broken", func() { trace.GivenBack(2, broken) }},
		{"DEBUG", "settled", "unit=tokens reserved=9 used=7", func() { trace.Settled("tokens", 9, 7) }},
		{"DEBUG", "asked", "op=take callers=9 took=1s error=broken", func() {
			trace.Asked("take", 9, time.Second, broken)
		}},
		{"INFO", "pauses", "for=30s", func() { trace.Paused(30 * time.Second) }},
		{"WARN", "Redis had lost turns, they count again", "", func() { trace.Lost() }},
		{"WARN", "other limiters of this name have other quotas, or another guard", `own="[20/1s 1/1m]"`, func() {
			trace.QuotasDiffer([]fairlimit.Quota{fairlimit.PerSecond(20), fairlimit.PerMinute(1)})
		}},
		{"WARN", "the fallback takes over", "error=broken", func() { trace.FellBack(broken) }},
		{"INFO", "Redis decides again", "", func() { trace.FellBack(nil) }},
	} {
		lines.Reset()
		c.tell()
		want := fmt.Sprintf("level=%s msg=%q limiter=tax-office %s", c.level, "fairlimit: "+c.event, c.attributes)
		assert.Equal(t, strings.TrimSpace(want)+"\n", lines.String())
	}
	v := reflect.ValueOf(trace).Elem()
	for i := range v.NumField() {
		assert.False(t, v.Field(i).IsNil(), v.Type().Field(i).Name)
	}
}

func TestALogTraceOfALimiterTellsAnOperatorOnlyWhatMatters(t *testing.T) {
	t.Parallel()
	l, lines := logTo(slog.LevelInfo)
	waiting := limiter(t, nowhere(t), fairlimit.PerHour(1),
		fairlimit.WithFallback(fairlimit.FailOpen), fairlimit.WithTrace(fairlimit.LogTrace(l)))
	for range 3 {
		require.NoError(t, waiting.Wait(t.Context()))
	}
	assert.Contains(t, lines.String(), `level=WARN msg="fairlimit: the fallback takes over" error="fairlimit: `)
	assert.Equal(t, 1, strings.Count(lines.String(), "\n"), lines)
}

func TestALogTraceWithoutALogWritesToTheDefaultOfTheMoment(t *testing.T) {
	trace := fairlimit.LogTrace(nil)
	l, lines := logTo(slog.LevelInfo)
	before, output, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(output) // SetDefault changes what package log does as well
		log.SetFlags(flags)
	}()
	slog.SetDefault(l)
	trace.Lost()
	assert.Contains(t, lines.String(), "Redis had lost turns")
}

func TestATraceIsToldOnceThatQuotasDiffer(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var slow, fast, same events
		service := func(e *events, quota fairlimit.Quota, opts ...fairlimit.Option) *fairlimit.Queue {
			return queueOf(t, rdb, "n", quota, append(opts, fairlimit.WithTrace(e.trace()))...)
		}
		told := func(e *events) int { return len(e.of("QuotasDiffer")) }
		var own []fairlimit.Quota
		tells := fairlimit.WithTrace(&fairlimit.Trace{QuotasDiffer: func(of []fairlimit.Quota) { own = of }})
		two, ten := service(&slow, fairlimit.PerSecond(2), tells), service(&fast, fairlimit.PerSecond(10))
		twin := service(&same, fairlimit.PerSecond(10))
		ask := func(queues ...*fairlimit.Queue) {
			for range 20 {
				for _, q := range queues {
					require.NoError(t, q.Wait(t.Context()))
				}
			}
		}
		ask(ten, twin)
		require.Zero(t, told(&fast)+told(&same), "all have the same quota")
		ask(two, ten)
		require.Equal(t, 1, told(&slow))
		require.Equal(t, []fairlimit.Quota{fairlimit.PerSecond(2)}, own)
		require.Equal(t, 1, told(&fast))
		require.Zero(t, told(&same), "it has not asked meanwhile")
		time.Sleep(5 * time.Minute)
		ask(two, ten)
		require.Zero(t, told(&slow)+told(&fast), "it is known")
		ask(ten)
		time.Sleep(11 * time.Minute)
		ask(ten, two)
		require.Equal(t, 1, told(&slow), "it is so again")
	})
}

func TestAnotherGuardDiffersAndAnotherStoredQuotaDoesNot(t *testing.T) {
	t.Parallel()
	redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
		var seen events
		service := func(opts ...fairlimit.Option) *fairlimit.Queue {
			return queueOf(t, rdb, "n", fairlimit.PerSecond(2), append(opts, fairlimit.WithTrace(seen.trace()))...)
		}
		told := func() int { return len(seen.of("QuotasDiffer")) }
		a, b := service(fairlimit.WithStoredQuota()), service(fairlimit.WithStoredQuota())
		for n := range 5 {
			require.NoError(t, a.SetQuotas(t.Context(), fairlimit.PerSecond(n+1)))
			require.NoError(t, b.Wait(t.Context()))
			require.NoError(t, a.Wait(t.Context()))
		}
		require.Zero(t, told())
		guarded := service(fairlimit.WithStoredQuota(), fairlimit.WithGuard(time.Second))
		require.NoError(t, guarded.Wait(t.Context()))
		require.Equal(t, 1, told())
	})
}
