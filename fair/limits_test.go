package fair

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

const (
	mostHeld   = 10_000_000_000
	latestSlot = 1 << 52 // in µs: in 2112
)

// exhaust asks until the queue is full, so many requests in a question, and
// returns what was granted.
func exhaust(t testing.TB, f *fair, n, together int, flow *engine.Flow) (grants []engine.Grant) {
	t.Helper()
	requests := make([]engine.Request, together)
	for i := range requests {
		requests[i] = engine.Request{N: n, MaxWait: engine.Forever, Flow: flow}
	}
	for range 400 {
		answers, err := f.Take(t.Context(), requests)
		require.NoError(t, err)
		for i, a := range answers {
			switch {
			case a.Granted:
				grants = append(grants, a.Grant)
				require.Less(t, a.Grant.At, int64(latestSlot))
			case errors.Is(a.Err, engine.ErrFull):
				return grants
			default:
				require.True(t, a.Left && i > 0, "answer %d after %d grants: %+v", i, len(grants), a)
			}
		}
	}
	require.Fail(t, "it is never full")
	return nil
}

// waysToBeFull are the ways that a question may take to a full queue.
var waysToBeFull = map[string]struct {
	together int
	prepare  func(t testing.TB, f *fair)
	flow     *engine.Flow
}{
	"one at a time": {together: 1},
	"all together":  {together: 30},
	"flows":         {together: 3, flow: &engine.Flow{ID: "a", Weight: 1}},
	"paused":        {together: 1, prepare: func(t testing.TB, f *fair) { pause(t, f, 365*day) }},
	"a stranger": {together: 1, prepare: func(t testing.TB, f *fair) {
		take(t, f.joins(t, engine.Quota{Permits: 1, Per: time.Hour}), engine.Request{N: 1})
	}},
}

func TestAQueueHoldsTenThousandMillionPermitsAtMost(t *testing.T) {
	t.Parallel()
	const n = 430_000_000
	for name, way := range waysToBeFull {
		t.Run(name, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				f, at := w.queue(t, engine.Quota{Permits: 1_000_000_000, Per: time.Second})
				if way.prepare != nil {
					way.prepare(t, f)
				}
				grants := exhaust(t, f, n, way.together, way.flow)
				assert.InDelta(t, mostHeld/n, len(grants), 1)
				assert.LessOrEqual(t, len(grants)*n, mostHeld)
				s := status(t, f)
				assert.LessOrEqual(t, s.Queued, mostHeld)
				if name == "paused" || name == "a stranger" {
					return
				}
				// What has passed counts no longer.
				at(4 * time.Second)
				more := exhaust(t, f, n, way.together, way.flow)
				assert.InDelta(t, 6, len(more), 2)
				assert.LessOrEqual(t, status(t, f).Queued, mostHeld)
				newest := more[len(more)-1]
				require.NoError(t, f.GiveBack(t.Context(), []engine.Grant{newest}))
				again := exhaust(t, f, n, way.together, way.flow)
				assert.InDelta(t, 1, len(again), 1)
			})
		})
	}
}

func TestAQueueEndsIn2112(t *testing.T) {
	t.Parallel()
	for name, way := range waysToBeFull {
		t.Run(name, func(t *testing.T) {
			inBothWorlds(t, func(t *testing.T, w world) {
				for what, quotas := range map[string][]engine.Quota{
					"ten years": {{Permits: 1, Per: longestPer}},
					"bursts":    {{Permits: 20, Per: longestPer, Burst: 2}, {Permits: 7, Per: 365 * day}},
					"a day":     {{Permits: 1000, Per: longestPer - day}, {Permits: 900, Per: 300 * day}},
				} {
					f, _ := w.queue(t, quotas...)
					if way.prepare != nil {
						way.prepare(t, f)
					}
					n := f.most
					grants := exhaust(t, f, n, way.together, way.flow)
					require.NotEmpty(t, grants, what)
					newest := grants[len(grants)-1]
					assert.Greater(t, newest.At, int64(latestSlot)-4*longestPer.Microseconds(), what)
					s := status(t, f)
					assert.Positive(t, s.Delay, what)
					assert.Equal(t, 0, s.Available, what)
					require.NoError(t, f.Look(t.Context()), what)
					require.NoError(t, f.GiveBack(t.Context(), []engine.Grant{newest}), what)
					assert.NotEmpty(t, exhaust(t, f, n, way.together, way.flow), what)
					pause(t, f, time.Hour)
					assert.Empty(t, exhaust(t, f, n, way.together, way.flow), what)
					status(t, f)
					// A turn that is too late is refused before anybody counts it.
					a := take(t, f, engine.Request{N: 1, MaxWait: time.Hour, Flow: way.flow})[0]
					assert.False(t, a.Granted, what)
					require.NoError(t, f.Reset(t.Context()), what)
					assert.True(t, take(t, f, engine.Request{N: 1, Flow: way.flow})[0].Granted, what)
				}
			})
		})
	}
}

// A narrower quota slows the clock down, so that turns come later than 2112.
func TestAQueueThatIsSlowedDownIsFullAndNotUnreadable(t *testing.T) {
	t.Parallel()
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		const year = 365 * day
		e, err := New(engine.Config{
			Client: rdb, Name: redistest.Name(t), Quota: engine.Quota{Permits: 1, Per: year}, Stored: true,
		})
		require.NoError(t, err)
		f := e.(*fair)
		require.Greater(t, len(exhaust(t, f, 1, 50, nil)), 50)
		for _, years := range []time.Duration{2, 10, 3} {
			require.NoError(t, f.SetQuotas(t.Context(), []engine.Quota{{Permits: 1, Per: years * year}}))
			assert.Empty(t, exhaust(t, f, 1, 1, nil))
			assert.Positive(t, status(t, f).Queued)
			pause(t, f, year)
			assert.Empty(t, exhaust(t, f, 1, 1, nil))
			assert.Positive(t, status(t, f).Delay)
			require.NoError(t, f.Look(t.Context()))
		}
	})
}

func TestEachOfARunIsRefusedByItsOwnDeadlineOnly(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		var granted []time.Duration
		for i, a := range take(t, f,
			engine.Request{N: 1, MaxWait: 1500 * time.Millisecond}, // now
			engine.Request{N: 1, MaxWait: 1600 * time.Millisecond}, // after 1 s
			engine.Request{N: 1, MaxWait: 1700 * time.Millisecond}, // refused
			engine.Request{N: 1, MaxWait: 2 * time.Second},         // after 2 s
			engine.Request{N: 1, MaxWait: 2 * time.Second},         // refused
			engine.Request{N: 1, MaxWait: engine.Forever},          // after 3 s
		) {
			require.Equal(t, i != 2 && i != 4, a.Granted, i)
			granted = append(granted, a.Wait)
		}
		require.Equal(
			t,
			[]time.Duration{0, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second},
			granted,
		)
	})
}

// A slot is what a run takes time for; see lua/fair/grant.lua.
func TestOneRunGrantsAFewSlotsAtMost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		requests := make([]engine.Request, 1024)
		for i := range requests {
			requests[i] = engine.Request{N: 1, MaxWait: engine.Forever}
		}
		for _, burst := range []int{0, 2, 7} {
			f, _ := w.queue(t, engine.Quota{Permits: 420, Per: time.Minute, Burst: burst})
			queued(t, f, 450, 1)
			answers, err := f.Take(t.Context(), requests)
			require.NoError(t, err)
			slots := map[int64]bool{}
			for _, a := range answers {
				require.True(t, a.Granted)
				slots[a.Grant.At] = true
			}
			require.NotEmpty(t, slots)
			require.LessOrEqual(t, len(slots), 64, "Burst %d", burst)
		}
		for i := range requests {
			requests[i].Amounts = engine.Amounts(fmt.Sprintf("tokens=%d", 1+i%2))
		}
		f, _ := w.tokensOf(t)
		answers, err := f.Take(t.Context(), requests)
		require.NoError(t, err)
		require.LessOrEqual(t, len(answers), 100, "of several units")
	})
}
