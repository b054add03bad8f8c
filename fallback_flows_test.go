package fairlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// sharing is an ailing engine that has flows.
type sharing struct{ *ailing }

func (sharing) AtBest(int) time.Duration { return 0 }

// due is when the turn passes that fills the flow of newFullFlow.
const due = time.Minute

// newFullFlow makes two flows of an engine that has failed, and that answers
// reads again. The first flow holds a turn that fills its share.
func newFullFlow(t *testing.T, f fairlimit.Fallback) (e *ailing, full, free *fairlimit.Queue) {
	t.Helper()
	e = newAilingEngine()
	q := backedBy(t, f, sharing{e}).(*fairlimit.Queue)
	full, err := q.Flow("full", 1)
	require.NoError(t, err)
	free, err = q.Flow("free", 1)
	require.NoError(t, err)
	errs := lineUp(context.Background(), full, 1, 1)
	(<-e.calls).answers(share(granted(due, 1)))
	t.Cleanup(func() { assert.NoError(t, <-errs, "a turn granted before stays") })
	synctest.Wait()
	e.fail(t, free, fairlimit.ErrUnreachable)
	e.statusIs(func() error { return nil })
	time.Sleep(time.Second)
	require.NoError(t, full.Wait(t.Context()), "the fallback lets it go, and a probe finds Redis")
	synctest.Wait()
	return e, full, free
}

// share says that the flow may hold one permit.
func share(a engine.Answer) engine.Answer {
	a.Share = 1
	return a
}

func TestCallersStandInTheLineOfAFullFlowOnceRedisAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, full, _ := newFullFlow(t, &f)
		start, before := time.Now(), f.permits.Load()
		errs := lineUp(t.Context(), full, 1, 1)
		more := lineUp(t.Context(), full, 1, 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, before, f.permits.Load(), "nobody is handed to the fallback while nothing is asked")
		assert.Equal(t, 1, e.probes())

		c := <-e.calls // the turn has passed, and the flow has room
		assert.Equal(t, due-time.Second, time.Since(start).Round(time.Second))
		third := lineUp(t.Context(), full, 1, 1)
		require.NoError(t, <-third, "one question tries, and whoever comes meanwhile does not wait for it")
		assert.Equal(t, before+1, f.permits.Load())
		c.answers(share(granted(0, 1)))
		require.NoError(t, <-errs)
		(<-e.calls).answers(share(granted(0, 1)))
		require.NoError(t, <-more)
		assert.Equal(t, before+1, f.permits.Load(), "those in line waited for Redis")
	})
}

func TestCallersLeaveTheLineOfAFullFlowIfRedisFailsAgain(t *testing.T) {
	for how, fails := range map[string]func(e *ailing, free *fairlimit.Queue) (c *call, took time.Duration){
		"with the question of another flow": func(e *ailing, free *fairlimit.Queue) (*call, time.Duration) {
			go func() { _, _ = free.Allow(context.Background()) }()
			c := <-e.calls
			c.fails(fairlimit.ErrUnreachable)
			return nil, 0
		},
		"by silence to another flow": func(e *ailing, free *fairlimit.Queue) (*call, time.Duration) {
			go func() { _, _ = free.Allow(context.Background()) }()
			return <-e.calls, time.Second
		},
		"with a question of its own": func(e *ailing, _ *fairlimit.Queue) (*call, time.Duration) {
			c := <-e.calls
			c.fails(fairlimit.ErrUnreachable)
			return nil, 0
		},
		"by silence to a question of its own": func(e *ailing, _ *fairlimit.Queue) (*call, time.Duration) {
			return <-e.calls, time.Second
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f second
				e, full, free := newFullFlow(t, &f)
				errs := lineUp(t.Context(), full, 1, 3)
				before := f.permits.Load()
				time.Sleep(2 * time.Second)
				require.Equal(t, before, f.permits.Load(), "they stand in line")
				c, took := fails(e, free)
				start := time.Now()
				for range 3 {
					require.NoError(t, <-errs)
				}
				assert.Equal(t, took, time.Since(start))
				assert.Equal(t, before+1+2+3, f.permits.Load())
				if c != nil {
					c.fails(fairlimit.ErrOutcomeUnknown)
				}
			})
		})
	}
}
