package engines

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/engine"
)

func open(t *testing.T, e Engine, rdb redis.UniversalClient, permits int, per time.Duration, clients int) Acquirer {
	t.Helper()
	quota := scenario.Quota{Permits: permits, Per: per}
	limiter, err := e.Open(setup(rdb, t.Name(), scenario.Load{Quota: quota, Clients: clients}))
	require.NoError(t, err)
	return limiter
}

func setup(rdb redis.UniversalClient, name string, l scenario.Load) Setup {
	return Setup{Load: l, Redis: rdb, Name: name}
}

func server(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestEveryEngineLetsThroughAndNamesItsKeysAfterItself(t *testing.T) {
	t.Parallel()
	for _, e := range All {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			limiter := open(t, e, s.Client(), 4, 200*time.Millisecond, 2)
			began := time.Now()
			for range 12 {
				_, err := limiter.Acquire(t.Context(), 1)
				require.NoError(t, err)
			}
			require.Greater(t, time.Since(began), 150*time.Millisecond, "the quota holds in a way")
			require.Less(t, time.Since(began), 30*time.Second)

			_, err := limiter.Acquire(t.Context(), 3)
			require.NoError(t, err, "several permits")

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			for err == nil {
				_, err = limiter.Acquire(ctx, 1)
			}
			require.Less(t, time.Since(began), 60*time.Second, "a deadline is kept")

			left, err := s.Client().Keys(t.Context(), "*").Result()
			require.NoError(t, err)
			require.NotEmpty(t, left)
			for _, key := range left {
				require.Contains(t, key, t.Name(), "or it would not be removed")
			}
		})
	}
}

func TestEnginesForTokensCountEachUnit(t *testing.T) {
	t.Parallel()
	// The keys of a window that is much shorter may expire while miniredis runs a
	// script on a busy machine.
	l := scenario.Load{
		Quota: scenario.Quota{Permits: 100, Per: time.Second}, Input: 1000, Output: 1000, Clients: 1,
	}
	for _, e := range For(l) {
		for unit, takes := range map[string][2]int{"input": {600, 1}, "output": {1, 600}} {
			t.Run(e.Name+" "+unit, func(t *testing.T) {
				t.Parallel()
				limiter, err := e.Open(setup(server(t).Client(), "tokens", e.Given(l)))
				require.NoError(t, err)
				began := time.Now()
				for range 2 {
					settle, err := limiter.(Counter).Take(t.Context(), takes[0], takes[1])
					require.NoError(t, err)
					if settle != nil {
						require.NoError(t, settle(t.Context(), takes[1]))
					}
				}
				require.Greater(t, time.Since(began), 150*time.Millisecond, "the quota holds in a way")
			})
		}
	}
}

func TestASettlementFreesWhatWasNotUsed(t *testing.T) {
	t.Parallel()
	l := scenario.Load{Quota: scenario.Quota{Permits: 100, Per: time.Hour}, Input: 1000, Output: 1000, Clients: 1}
	for _, e := range []Engine{fairEngine, rivalEngine} {
		limiter, err := e.Open(setup(server(t).Client(), "tokens", e.Given(l)))
		require.NoError(t, err)
		settle, err := limiter.(Counter).Take(t.Context(), 1, 1000)
		require.NoError(t, err)
		require.NoError(t, settle(t.Context(), 400))
		_, err = limiter.(Counter).Take(t.Context(), 1, 600)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = limiter.(Counter).Take(ctx, 1, 1)
		require.Error(t, err)
	}
}

// counted is how many calls each client got through in so long, if it has so many
// callers.
func counted(t *testing.T, e Engine, l scenario.Load, callers []int, lasting time.Duration) []int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	s := server(t)
	got := make([]atomic.Int64, len(callers))
	var all sync.WaitGroup
	for client, n := range callers {
		l.Flow = strconv.Itoa(client)
		limiter, err := e.Open(setup(s.Client(), t.Name(), l))
		require.NoError(t, err)
		for range n {
			all.Go(func() {
				for {
					if _, err := limiter.Acquire(ctx, 1); err != nil {
						return
					}
					got[client].Add(1)
				}
			})
		}
	}
	all.Wait()
	counts := make([]int, len(callers))
	for i := range got {
		counts[i] = int(got[i].Load())
	}
	return counts
}

func TestPeersKeepTheCeilingOfEachClientAndTheQuotaOfAll(t *testing.T) {
	t.Parallel()
	l := scenario.Load{
		Quota:   scenario.Quota{Permits: 10, Per: 30 * time.Second},
		Ceiling: scenario.Quota{Permits: 3, Per: 30 * time.Second},
	}
	for _, e := range []Engine{redisRateEngine, bottleneckEngine, bullmqEngine} {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []int{3, 3}, counted(t, e, l, []int{5, 5}, time.Second))
			sum := 0
			for _, n := range counted(t, e, l, []int{5, 5, 5, 5}, time.Second) {
				sum += n
			}
			require.Equal(t, 10, sum)
		})
	}
}

func TestBullMQsGroupsTakeTurns(t *testing.T) {
	t.Parallel()
	l := scenario.Load{Quota: scenario.Quota{Permits: 8, Per: 400 * time.Millisecond}}
	got := counted(t, bullmqEngine, l, []int{40, 4}, 4*time.Second)
	require.Less(t, got[0], 2*got[1], "%v", got)
}

func TestBottleneckSpacesJobsByItsMinTime(t *testing.T) {
	t.Parallel()
	l := scenario.Load{Quota: scenario.Quota{Permits: 1, Per: 200 * time.Millisecond}}
	got := counted(t, bottleneckEngine, l, []int{9, 1}, 2100*time.Millisecond)
	require.LessOrEqual(t, got[0]+got[1], 11)
	require.LessOrEqual(t, got[1], 2, "whoever asks first goes first, however many callers it has")
}

func TestTheTurnsOfAProcessAreNoted(t *testing.T) {
	t.Parallel()
	limiter := open(t, fairEngine, server(t).Client(), 2, time.Hour, 1)
	for range 2 {
		_, err := limiter.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	told := limiter.(Teller).Told()
	require.Len(t, told.Turns, 2)
	for _, turn := range told.Turns {
		require.Equal(t, 1, turn.Permits)
		require.Less(t, turn.Sent, turn.Replied)
		require.Zero(t, turn.Wait)
	}

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := limiter.Acquire(ctx, 2)
	require.ErrorIs(t, err, context.Canceled)
	told = limiter.(Teller).Told()
	require.Len(t, told.Turns, 3)
	require.InDelta(t, time.Hour, told.Turns[2].Wait, float64(time.Minute))
	require.Eventually(t, func() bool {
		told = limiter.(Teller).Told()
		return len(told.Returned) == 1 && told.Returned[0] == 2
	}, 5*time.Second, time.Millisecond, "the third of all")
}

// odd is an engine whose answer is not in order, and which then loses answers.
type odd struct {
	engine.Engine
	err error
}

func (o odd) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	return []engine.Answer{{Granted: true, Grant: engine.Grant{At: 2}}, {Granted: true, Grant: engine.Grant{At: 1}}}, o.err
}

func (o odd) GiveBack(context.Context, []engine.Grant) error { return o.err }

func TestWhatIsOutOfOrderLostOrGivenBackIsNoted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		n, o := Notes{Now: measure.Now}, odd{}
		if lost {
			o.err = engine.ErrOutcomeUnknown
		}
		e := noted{o, &n}
		_, err := e.Take(t.Context(), []engine.Request{{N: 3}})
		require.Equal(t, o.err, err)
		require.Equal(t, o.err, e.GiveBack(t.Context(), []engine.Grant{{N: 4}}))
		told := n.Told()
		require.Equal(t, 1, told.Strange, "nobody held it")
		require.Equal(t, 1, told.Backwards)
		if lost {
			require.Equal(t, 7, told.Lost)
		} else {
			require.Equal(t, 4, told.GivenBack)
		}
	}
}
