package fairlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestOneAloneWhoCannotLeaveAsksForItself is about callers whose ctx never
// ends, who may ask Redis in their own goroutine. The client has to see to it
// that they come back.
func TestOneAloneWhoCannotLeaveAsksForItself(t *testing.T) {
	endless := context.Background()
	newStubOf := func(t *testing.T, o *redis.Options) (*stub, fairlimit.Limiter) {
		s, _ := newStub(t)
		return s, s.with(t, redis.NewClient(o))
	}
	newStub := func(t *testing.T) (*stub, fairlimit.Limiter) { // that has just been answered quickly
		s, l := newStubOf(t, &redis.Options{Addr: "127.0.0.1:1"})
		errs := lineUp(endless, l, 1, 1)
		(<-s.calls).grants(1)
		require.NoError(t, <-errs)
		synctest.Wait()
		return s, l
	}
	t.Run("without another goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			assert.Zero(t, redistest.Running("internal/coalesce.(*Asker).serve("))
			(<-e.calls).grants(1)
			require.NoError(t, <-errs)
		})
	})
	t.Run("and for nobody else", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			alone := <-e.calls
			others := lineUp(endless, l, 2, 4)
			assert.Equal(t, []int{1}, alone.permits())
			alone.grants(1)
			require.NoError(t, <-errs, "it does not wait until the others are served")
			next := <-e.calls
			assert.Equal(t, []int{2, 3, 4}, next.permits())
			next.grants(3)
			for range 3 {
				require.NoError(t, <-others)
			}
		})
	})
	t.Run("until its answer is overdue, then others go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStub(t)
			errs := lineUp(endless, l, 1, 1)
			stuck := <-e.calls
			next := lineUp(t.Context(), l, 2, 2)
			start := time.Now()
			current := <-e.calls
			assert.Equal(t, 5*time.Second, time.Since(start))
			stuck.grants(1)
			last := lineUp(t.Context(), l, 3, 3)
			select {
			case <-e.calls:
				t.Error("one question at a time")
			default:
			}
			current.grants(1)
			require.NoError(t, <-next)
			(<-e.calls).grants(1)
			require.NoError(t, <-last)
			require.ErrorIs(t, <-errs, fairlimit.ErrOutcomeUnknown)
			synctest.Wait()
			assert.Len(t, e.givenBack(), 1)
		})
	})
	t.Run("right after a quick answer, if the client bounds each round trip", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, l := newStubOf(t, &redis.Options{Addr: "127.0.0.1:1"})
			asks := func(after, takes time.Duration, byItself bool) {
				t.Helper()
				time.Sleep(after)
				errs := lineUp(endless, l, 1, 1)
				question := <-e.calls
				assert.Equal(t, byItself, redistest.Running("internal/coalesce.(*Asker).serve(") == 0)
				time.Sleep(takes)
				question.grants(1)
				require.NoError(t, <-errs)
				synctest.Wait()
			}
			asks(0, time.Millisecond, false) // the connection is new
			asks(99*time.Millisecond, time.Millisecond, true)
			asks(99*time.Millisecond, 101*time.Millisecond, true)
			asks(0, time.Millisecond, false) // the last answer took long
			asks(0, time.Millisecond, true)
			asks(100*time.Millisecond, time.Millisecond, false) // too long ago
		})
	})
	t.Run("but not with a client that may wait for longer", func(t *testing.T) {
		clients := map[string]redis.UniversalClient{
			"a Cluster": redis.NewClusterClient(
				&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
		}
		for name, options := range map[string]redis.Options{
			"no ReadTimeout":      {ReadTimeout: -1},
			"no WriteTimeout":     {WriteTimeout: -1},
			"a ReadTimeout of 1m": {ReadTimeout: time.Minute},
		} {
			options.Addr = "127.0.0.1:1"
			clients[name] = redis.NewClient(&options)
		}
		for name, rdb := range clients {
			synctest.Test(t, func(t *testing.T) {
				e := &stub{queues: true, calls: make(chan *call)}
				l := e.with(t, rdb)
				errs := lineUp(endless, l, 1, 1)
				(<-e.calls).grants(1)
				require.NoError(t, <-errs)
				synctest.Wait()
				start := time.Now()
				errs = lineUp(endless, l, 1, 1)
				stuck := <-e.calls
				require.ErrorIs(t, <-errs, fairlimit.ErrOutcomeUnknown, name)
				assert.Equal(t, 5*time.Second, time.Since(start), name)
				stuck.grants(1)
			})
		}
	})
}
