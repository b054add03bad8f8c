package fairlimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// events are what a trace was told, in order: the names, with what they were
// told for some.
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
		f.Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
			if name == "Asked" {
				e.add(fmt.Sprint(args[0], " for ", args[1], " ", args[3].IsNil()))
			} else {
				e.add(name)
			}
			return nil
		}))
	}
	return t
}

func (e *events) add(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// told returns the events, and forgets them.
func (e *events) told() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.all
	e.all = nil
	return told
}

func TestATraceIsToldWhatHappens(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		seen, first := &events{}, 0
		rdb, w := wayTo(t, server)
		q := queueOf(t, rdb, "q", fairlimit.Every(time.Minute), fairlimit.WithTrace(nil),
			fairlimit.WithTrace(&fairlimit.Trace{Entered: func(int) { first++ }}), fairlimit.WithTrace(seen.trace()))
		must := func(err error) { t.Helper(); require.NoError(t, err) }
		take := "take for 1 true"

		must(q.Wait(t.Context()))
		assert.Equal(t, []string{"Entered", take, "Granted", "Taken", "Left"}, seen.told())
		assert.Equal(t, 1, first)

		require.ErrorAs(t, q.Wait(within(t, time.Second)), new(*fairlimit.RefusedError))
		assert.Equal(t, []string{"Entered", take, "Refused", "Left"}, seen.told())
		require.False(t, allow(t, q))
		assert.Equal(t, []string{take, "Refused"}, seen.told(), "Allow does not wait")
		require.ErrorIs(t, q.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)
		assert.Empty(t, seen.told(), "what can never be granted never enters")

		r := reserve(t, q, 1)
		assert.Equal(t, []string{take, "Granted", "Reserved"}, seen.told())
		must(r.Cancel(t.Context()))
		must(r.Cancel(t.Context()))
		assert.Equal(t, []string{"release for 1 true", "GivenBack", "Unreserved"}, seen.told())

		ctx, leave := context.WithCancel(t.Context())
		left := waits(ctx, q)
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		told := seen.told()
		slices.Sort(told)
		want := []string{"Entered", "GivenBack", "Granted", "Left", "Refused", "release for 1 true", take}
		assert.Equal(t, want, told)

		must(q.Pause(t.Context(), 3*time.Second))
		assert.Equal(t, []string{"Paused", "pause for 1 true"}, seen.told())
		must(q.Resume(t.Context()))
		must(q.Requeue(t.Context()))
		must(q.SetQuotas(t.Context(), fairlimit.PerSecond(2)))
		status(t, q)
		assert.Equal(t, []string{
			"resume for 1 true", "requeue for 1 true", "set quotas for 1 true", "status for 1 true",
		}, seen.told())
		server.FlushAll()
		require.False(t, allow(t, q))
		assert.Equal(t, []string{take, "Lost", "Refused"}, seen.told())
		must(q.Reset(t.Context()))
		assert.Equal(t, []string{"reset for 1 true"}, seen.told())

		w.is(traffic{before: noConnection})
		_, err := q.Allow(t.Context())
		require.Error(t, err)
		assert.Equal(t, []string{"take for 1 false", "Refused"}, seen.told())
	})
}

func TestATraceIsToldWhatWasSettled(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		told := map[string][2]int{}
		q := tokens(t, server.Client, fairlimit.WithTrace(&fairlimit.Trace{
			Settled:   func(unit string, reserved, used int) { told[unit] = [2]int{reserved, used} },
			GivenBack: func(int, error) { t.Error("nothing was given back") },
		}))
		turn := take(t, q, amounts{"tokens": 20})
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 30, "": 1}))
		require.NoError(t, turn.Settle(t.Context(), amounts{"tokens": 1}))
		require.Equal(t, map[string][2]int{"": {1, 1}, "tokens": {20, 30}}, told)
	})
}

// Redis is silent while the caller sleeps.
func TestATraceIsToldWhetherATurnIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		rdb, w := wayTo(t, server)
		var confirmed []bool
		q := queueOf(t, rdb, "q", fairlimit.Every(10*time.Second), fairlimit.WithTrace(&fairlimit.Trace{
			Taken: func(_ int, _ time.Duration, ok bool) { confirmed = append(confirmed, ok) },
		}))
		require.NoError(t, q.Wait(t.Context()))
		require.NoError(t, q.Wait(t.Context()))
		sleeps := waits(t.Context(), q)
		w.is(traffic{before: noConnection})
		require.NoError(t, <-sleeps)
		assert.Equal(t, []bool{true, true, false}, confirmed)
	})
}

func TestALogTraceWritesEachEventAtItsLevel(t *testing.T) {
	var lines bytes.Buffer
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	l := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: untimed}))
	trace, fails := fairlimit.LogTrace(l.With("limiter", "n")), errors.New("broken")
	for want, tell := range map[string]func(){
		`DEBUG "caller waits" permits=2`:                         func() { trace.Entered(2) },
		`DEBUG "caller leaves" permits=2 waited=1s error=broken`: func() { trace.Left(2, time.Second, fails) },
		`WARN "turn missed" permits=2 lateness=1s`:               func() { trace.Missed(2, time.Second) },
		`INFO "pauses" for=30s`:                                  func() { trace.Paused(30 * time.Second) },
		`WARN "Redis had lost turns, they count again"`:          func() { trace.Lost() },
		`WARN "the fallback takes over" error=broken`:            func() { trace.FellBack(fails) },
		`INFO "Redis decides again"`:                             func() { trace.FellBack(nil) },
	} {
		lines.Reset()
		tell()
		level, rest, _ := strings.Cut(want, ` "`)
		event, attributes, _ := strings.Cut(rest, `"`)
		want = fmt.Sprintf("level=%s msg=%q limiter=n%s\n", level, "fairlimit: "+event, attributes)
		assert.Equal(t, want, lines.String())
	}
	v := reflect.ValueOf(trace).Elem()
	for i := range v.NumField() {
		assert.False(t, v.Field(i).IsNil(), v.Type().Field(i).Name)
	}
}
