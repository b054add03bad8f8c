package fairlimit_test

import (
	"context"
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

// carried counts what questions carry.
type carried struct {
	mu                 sync.Mutex
	questions, callers int
}

func (c *carried) trace() fairlimit.Option {
	return fairlimit.WithTrace(&fairlimit.Trace{Asked: func(op string, callers int, _ time.Duration, _ error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if op == "take" {
			c.questions, c.callers = c.questions+1, c.callers+callers
		}
	}})
}

// TestACrowdWithDeadlinesIsCarriedAFewTimes has all callers come at one moment,
// each with a deadline of its own.
func TestACrowdWithDeadlinesIsCarriedAFewTimes(t *testing.T) {
	const (
		crowd     = 2000
		roundTrip = 10 * time.Millisecond
	)
	us := func(i int) time.Duration { return time.Duration(i) * time.Microsecond }
	for name, c := range map[string]struct {
		patience func(i int) time.Duration
		refusal  time.Duration // within which all are refused who are
		granted  int
	}{
		"later ones have less time": {func(i int) time.Duration { return 2*time.Second - us(i) }, 2 * roundTrip, 20},
		// One is granted a turn that is too late once it hears of it, and stays
		// until it has given that back.
		"later ones have more time": {func(i int) time.Duration { return 2*time.Second + us(i) }, 4 * roundTrip, 20},
		// A question grants at 64 slots at most.
		"some are granted": {func(i int) time.Duration { return us(i*37%crowd) * 50_000 }, time.Second, 870},
		"all are granted":  {func(i int) time.Duration { return time.Hour + us(i) }, 0, crowd},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
				sent := &carried{}
				l, err := fairlimit.New(rdb, "crowd", fairlimit.Every(100*time.Millisecond), sent.trace(), fairlimit.WithGuard(0))
				require.NoError(t, err)
				require.NoError(t, l.Wait(t.Context())) // Redis learns the script
				rdb.AddHook(late{by: roundTrip})
				time.Sleep(time.Second)
				var all sync.WaitGroup
				refused, worst := make(chan time.Duration, crowd), time.Duration(0)
				for i := range crowd {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), c.patience(i))
						defer cancel()
						start := time.Now()
						if err := l.Wait(ctx); err != nil {
							assert.ErrorIs(t, err, context.DeadlineExceeded)
							refused <- time.Since(start)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				close(refused)
				granted := crowd - len(refused)
				for after := range refused {
					worst = max(worst, after)
				}
				t.Logf("%d questions for %d, refusals within %v, %d went", sent.questions, sent.callers, worst, granted)
				assert.LessOrEqual(t, sent.callers, 3*crowd)
				assert.LessOrEqual(t, worst, c.refusal)
				assert.InDelta(t, c.granted, granted, 20)
			})
		})
	}
}
