package fairlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func TestRedisIsAskedAgainOnceItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		e.fail(t, l, fairlimit.ErrUnreachable)
		wait := func() {
			start := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			require.Zero(t, time.Since(start))
			synctest.Wait()
		}
		for i := range 5 { // while Status fails, too
			for range 20 {
				wait()
			}
			assert.Equal(t, i, e.probes(), "one a second, and only when somebody calls")
			time.Sleep(time.Second)
		}
		e.statusIs(func() error { return nil })
		wait()
		assert.Equal(t, 5, e.probes())

		before := f.permits.Load()
		errs := lineUp(t.Context(), l, 1, 1) // the one who tries
		c := <-e.calls
		wait()
		assert.Equal(t, before+1, f.permits.Load(), "while it does, the others do not")
		c.fails(redis.ErrNoScript)
		require.NoError(t, <-errs)
		assert.Equal(t, before+2, f.permits.Load())
		wait()

		time.Sleep(time.Second)
		wait()
		assert.Equal(t, 6, e.probes())
		before = f.permits.Load()
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).answers(granted(time.Hour, 1))
		synctest.Wait()
		for range 3 {
			again := lineUp(t.Context(), l, 1, 1)
			(<-e.calls).grants(1)
			require.NoError(t, <-again, "all ask again as soon as it has its answer, though its turn is an hour away")
		}
		require.NoError(t, <-errs)
		assert.Equal(t, before, f.permits.Load())
		assert.Equal(t, 6, e.probes())
	})
}

func TestOnlyTheOneWhoTriesWaitsForASilentRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		e.statusIs(func() error { return nil })
		e.fail(t, l, fairlimit.ErrUnreachable)
		time.Sleep(time.Second)
		require.NoError(t, l.Wait(t.Context()))
		synctest.Wait()
		start := time.Now()
		errs := lineUp(t.Context(), l, 1, 1)
		c := <-e.calls
		for range 10 {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.Zero(t, time.Since(start))
		require.NoError(t, <-errs)
		assert.Equal(t, time.Second, time.Since(start))

		time.Sleep(time.Second) // its question is still out, and the next to try stands behind it
		require.NoError(t, l.Wait(t.Context()))
		synctest.Wait()
		start = time.Now()
		require.NoError(t, l.Wait(t.Context()))
		assert.Equal(t, time.Second, time.Since(start))
		c.fails(fairlimit.ErrOutcomeUnknown)
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, l := newAiling(t, &second{})
		hang := make(chan struct{})
		e.statusIs(func() error { <-hang; return assert.AnError })
		e.fail(t, l, fairlimit.ErrUnreachable)
		for range 100 {
			time.Sleep(10 * time.Second)
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.Equal(t, 1, e.probes())
		close(hang)
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Wait(t.Context()))
		synctest.Wait()
		assert.Equal(t, 2, e.probes())
	})
}

func TestAnOldQuestionsFailureIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f second
		e, l := newAiling(t, &f)
		e.statusIs(func() error { return nil })
		errs := lineUp(t.Context(), l, 1, 1)
		old := <-e.calls
		require.NoError(t, <-errs)
		time.Sleep(5 * time.Second) // after which another goroutine serves
		require.NoError(t, l.Wait(t.Context()))
		synctest.Wait()
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs)

		old.fails(fairlimit.ErrOutcomeUnknown)
		synctest.Wait()
		before := f.permits.Load()
		errs = lineUp(t.Context(), l, 1, 1)
		(<-e.calls).grants(1)
		require.NoError(t, <-errs)
		assert.Equal(t, before, f.permits.Load())
	})
}
