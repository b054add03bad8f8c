package fairlimit_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

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
