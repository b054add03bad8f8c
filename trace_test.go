package fairlimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// events is a log of what a trace is told, without times.
type events struct{ bytes.Buffer }

func (e *events) trace() *fairlimit.Trace {
	short := func(_ []string, a slog.Attr) slog.Attr {
		switch kind := a.Value.Kind(); {
		case a.Key == "error":
			return slog.Bool("failed", true)
		case a.Key == "permits" || kind == slog.KindTime || kind == slog.KindDuration:
			return slog.Attr{}
		}
		return a
	}
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: short}
	return fairlimit.LogTrace(slog.New(slog.NewTextHandler(e, options)))
}

// told returns the lines, and forgets them. They are for debugging, unless one says
// otherwise.
func (e *events) told() []string {
	synctest.Wait()
	defer e.Reset()
	short := strings.NewReplacer("level=DEBUG msg=", "", "level=", "", "msg=", "", "fairlimit: ", "", `"`, "")
	return strings.FieldsFunc(short.Replace(e.String()), func(r rune) bool { return r == '\n' })
}

func TestATraceIsToldWhatHappens(t *testing.T) {
	v := reflect.ValueOf(fairlimit.LogTrace(nil)).Elem()
	for i := range v.NumField() {
		assert.False(t, v.Field(i).IsNil(), v.Type().Field(i).Name)
	}
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		seen, first := &events{}, 0
		q, w := onAWay(t, server, fairlimit.Every(time.Minute), fairlimit.WithTrace(nil),
			fairlimit.WithTrace(&fairlimit.Trace{Entered: func(int) { first++ }}), fairlimit.WithTrace(seen.trace()))
		must := func(err error) { t.Helper(); require.NoError(t, err) }
		tells := func(want ...string) { t.Helper(); assert.Equal(t, want, seen.told()) }
		const (
			take, granted  = "asked op=take callers=1", "turn granted"
			enters, leaves = "caller waits", "caller leaves"
			refused        = "refused failed=true"
		)
		must(q.Wait(t.Context()))
		tells(enters, take, granted, "turn taken confirmed=true", leaves)
		assert.Equal(t, 1, first)

		require.ErrorAs(t, q.Wait(within(t, time.Second)), new(*fairlimit.RefusedError))
		tells(enters, take, refused, leaves+" failed=true")
		require.False(t, allow(t, q))
		tells(take, refused) // Allow does not wait
		require.ErrorIs(t, q.WaitN(t.Context(), 0), fairlimit.ErrInvalidPermits)
		assert.Empty(t, seen.told(), "what can never be granted never enters")

		r := reserve(t, q, 1)
		tells(take, granted, "reserved")
		must(r.Cancel(t.Context()))
		must(r.Cancel(t.Context()))
		tells("asked op=release callers=1", "given back", "unreserved")

		ctx, leave := context.WithCancel(t.Context())
		left := waits(ctx, q)
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		told := seen.told()
		slices.Sort(told)
		assert.Equal(t, []string{
			"asked op=release callers=1", take, leaves + " failed=true", enters, "given back", refused, granted,
		}, told)

		must(q.Pause(t.Context(), 3*time.Second))
		tells("INFO pauses", "asked op=pause callers=1")
		must(q.Resume(t.Context()))
		must(q.Requeue(t.Context()))
		must(q.SetQuotas(t.Context(), fairlimit.PerSecond(2)))
		status(t, q)
		tells("asked op=resume callers=1", "asked op=requeue callers=1", "asked op=set quotas callers=1",
			"asked op=status callers=1")
		server.FlushAll()
		require.False(t, allow(t, q))
		tells(take, "WARN Redis had lost turns, they count again", refused)
		must(q.Reset(t.Context()))
		tells("asked op=reset callers=1")
		r = reserve(t, q, 1)
		tells(take, granted, "reserved")
		must(r.Wait(t.Context()))
		tells("unreserved", enters, "turn taken confirmed=true", leaves)

		w.is(traffic{before: noConnection})
		_, err := q.Allow(t.Context())
		require.Error(t, err)
		tells(take+" failed=true", refused)
	})
}

// Redis is silent while the caller sleeps.
func TestATraceIsToldWhetherATurnIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		var confirmed []bool
		q, w := onAWay(t, server, fairlimit.Every(10*time.Second), fairlimit.WithTrace(&fairlimit.Trace{
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
