package engines

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/engine"
)

// tens grants the k-th question it is ever asked a wait of k tens of
// milliseconds, starting with 0.
type tens struct {
	engine.Engine
	mu    sync.Mutex
	asked []engine.Request
}

func (*tens) Queues() bool   { return true }
func (*tens) Fits(int) error { return nil }

func (e *tens) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var answers []engine.Answer
	for _, r := range requests {
		wait := time.Duration(len(e.asked)) * 10 * time.Millisecond
		answers = append(answers, engine.Answer{Granted: true, Wait: wait})
		e.asked = append(e.asked, r)
	}
	return answers, nil
}

// told is the question that this wait was the answer to.
func (e *tens) told(wait time.Duration) engine.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[wait/(10*time.Millisecond)]
}

func TestRecorderKnowsWhoWasToldWhat(t *testing.T) {
	const callers = 20
	e := &tens{}
	limiter, err := record(func(engine.Config) (engine.Engine, error) { return e, nil },
		redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), "name",
		scenario.Load{Quota: scenario.Quota{Permits: 1, Per: time.Second}}, measure.Now)
	require.NoError(t, err)

	var mu sync.Mutex
	var told []time.Duration
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			turn, err := limiter.Acquire(t.Context(), caller, caller+1)
			returned := measure.Now()
			if !assertTurn(t, err == nil && turn != nil) {
				return
			}
			assertTurn(t, turn.Sent <= turn.Replied && turn.Replied+turn.Wait <= returned)
			// The turn is this caller's, not another's.
			assertTurn(t, e.told(turn.Wait).N == caller+1)
			mu.Lock()
			defer mu.Unlock()
			told = append(told, turn.Wait)
		})
	}
	all.Wait()

	slices.Sort(told)
	require.Len(t, slices.Compact(told), callers)
	for _, r := range e.asked {
		require.Equal(t, engine.Forever, r.MaxWait, "the engine is asked what a caller without a deadline asks")
	}
}

func TestRecorderLeavesARealDeadlineAloneAndKnowsTheCallerByIt(t *testing.T) {
	e := &tens{}
	limiter, err := record(func(engine.Config) (engine.Engine, error) { return e, nil },
		redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), "name",
		scenario.Load{Quota: scenario.Quota{Permits: 1, Per: time.Second}}, measure.Now)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var all sync.WaitGroup
	for caller := range 10 { // of whom the even ones share a deadline to the nanosecond
		all.Go(func() {
			ctx := ctx
			if caller%2 == 1 {
				ctx = t.Context()
			}
			turn, err := limiter.Acquire(ctx, caller, caller+1)
			assertTurn(t, err == nil && turn != nil && e.told(turn.Wait).N == caller+1)
		})
	}
	all.Wait()
	for _, r := range e.asked {
		if r.N%2 == 1 {
			require.InDelta(t, time.Minute, r.MaxWait, float64(10*time.Second))
		} else {
			require.Equal(t, engine.Forever, r.MaxWait)
		}
	}
}

// assertTurn fails a test from any goroutine.
func assertTurn(t *testing.T, ok bool) bool {
	t.Helper()
	if !ok {
		t.Error("a caller was handed a turn that is not its own")
	}
	return ok
}
