package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/metrics"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// counts is a meter that adds up, by the name of the metric without its first word,
// and by its labels.
type counts struct {
	mu  sync.Mutex
	sum map[string]float64
}

func newCounts() *counts { return &counts{sum: map[string]float64{}} }

func (c *counts) add(m *metrics.Metric, value float64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value != 0 {
		c.sum[strings.Join(append([]string{strings.TrimPrefix(m.Name, "fairlimit.")}, labels...), " ")] += value
	}
}

func (c *counts) Add(m *metrics.Metric, n int, labels ...string) { c.add(m, float64(n), labels...) }
func (c *counts) Record(m *metrics.Metric, value float64)        { c.add(m, value) }

// look is what a look tells, without what is 0.
func look(ctx context.Context, b *metrics.Books) map[string]float64 {
	told := newCounts()
	b.Look(ctx, told.add)
	return told.sum
}

// Which events there are is tested with the trace.
func TestWhatEachEventCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounts()
		b := metrics.New(c)
		limitertest.Happens(b.Trace())
		assert.Equal(t, map[string]float64{
			"permits granted": 5, "permits refused": 6, "permits left": 7, "permits failed": 8, "permits taken": 9,
			"permits missed": 10, "permits given_back": 11, "wait.duration": 0.3, "wake.lateness": 0.501,
			"questions take false": 1, "questions take true": 1, "question.callers": 14, "pauses": 1, "losses": 1,
			"settled tokens reserved": 18, "settled tokens used": 19, "settled tokens refund": 2, "settled tokens debt": 3,
		}, c.sum)
		shown := map[string]float64{"callers.waiting": 1, "degraded": 1, "pause.remaining": 3600}
		assert.Equal(t, shown, look(t.Context(), b))

		l := &limitertest.Standing{As: fairlimit.Status{
			Queued: 3, Delay: 4 * time.Second, Available: 5, Paused: 2 * time.Hour,
			Units: map[string]fairlimit.UnitStatus{"tokens": {Queued: 6, Available: 7}},
		}}
		b.Watch(l)
		b.Trace().FellBack(nil)
		assert.Equal(t, map[string]float64{
			"callers.waiting": 1, "pause.remaining": 7200, "queue.permits": 3, "queue.delay": 4, "available": 5,
			"unit.queued tokens": 6, "unit.available tokens": 7,
		}, look(t.Context(), b))
	})
}

func TestWhatBecomesOfWhoIsRefused(t *testing.T) {
	deadline := &fairlimit.RefusedError{Wait: time.Second}
	away := fmt.Errorf("%w: %w", fairlimit.ErrUnreachable, context.DeadlineExceeded)
	for outcome, errs := range map[string][]error{
		"refused": {deadline, fmt.Errorf("wrapped: %w", deadline), fairlimit.ErrMissed},
		"left":    {context.Canceled, context.DeadlineExceeded, fairlimit.ErrReservationOver},
		"invalid": {fairlimit.ErrExceedsQuota, fairlimit.ErrUnknownUnit},
		"failed":  {away, fairlimit.ErrOutcomeUnknown, fairlimit.ErrState, errors.New("READONLY")},
	} {
		for _, err := range errs {
			c := newCounts()
			metrics.New(c).Trace().Refused(3, err)
			assert.Equal(t, map[string]float64{"permits " + outcome: 3}, c.sum, err)
		}
	}
	c := newCounts()
	metrics.New(c).Trace().GivenBack(1, errors.New("it is not known whether it was"))
	assert.Empty(t, c.sum)
}

// For the race detector.
func TestManyCallersAndLooksAtOnce(t *testing.T) {
	b := metrics.New(newCounts())
	trace := b.Trace()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			trace.Entered(1)
			trace.Paused(time.Second)
			trace.FellBack(nil)
			look(t.Context(), b)
			trace.Left(1, 0, nil)
		})
	}
	all.Wait()
	assert.Zero(t, look(t.Context(), b)["callers.waiting"])
}

func TestAPauseRemainsAsLongAsRedisOrThisLimiterSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := metrics.New(newCounts())
		remaining := func(seconds float64) {
			t.Helper()
			assert.Equal(t, seconds, look(t.Context(), b)["pause.remaining"])
		}
		trace, l := b.Trace(), &limitertest.Standing{}
		trace.Paused(10 * time.Second)
		trace.Paused(4 * time.Second)
		time.Sleep(time.Second)
		remaining(9)
		b.Watch(l)
		l.As.Paused = time.Minute // another process has paused the queue, too
		remaining(60)
		l.As.Paused = 0 // another process has reset it
		remaining(0)
		l.Err = errors.New("silent")
		remaining(9)
		trace.Asked("reset", 1, 0, nil)
		remaining(0)
		trace.Paused(2 * time.Second)
		time.Sleep(3 * time.Second)
		remaining(0)
	})
}

func TestALookTakesNoLongerThanItsBoundOrItsCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := metrics.New(newCounts())
		b.Watch(silent{})
		began := time.Now()
		assert.Equal(t, map[string]float64{"status.failures": 1}, look(t.Context(), b))
		assert.Equal(t, metrics.StatusBound, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), metrics.StatusBound/4)
		defer cancel()
		assert.Equal(t, map[string]float64{"status.failures": 2}, look(ctx, b))
		assert.Equal(t, metrics.StatusBound*5/4, time.Since(began))
		b.Watch(nil)
		assert.Equal(t, map[string]float64{"status.failures": 2}, look(t.Context(), b))
	})
}

// silent is a limiter that never answers.
type silent struct{ fairlimit.Limiter }

func (silent) Status(ctx context.Context) (fairlimit.Status, error) {
	<-ctx.Done()
	return fairlimit.Status{}, ctx.Err()
}
