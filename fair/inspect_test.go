package fair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestInspectingWhatIsNotThere(t *testing.T) {
	t.Parallel()
	redistest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, err := Inspect(t.Context(), rdb, redistest.Name(t))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), s.At, time.Minute)
		require.Equal(t, State{At: s.At}, s)
	})
}

func TestInspectTellsWhatTheWindowsHold(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t,
			engine.Quota{Permits: 4, Per: time.Second, Burst: 2}, engine.Quota{Permits: 100, Per: time.Minute})
		queued(t, f, 9, 1)
		s := inspected(t, f)
		require.Equal(t, []Window{{100, time.Minute, 2}, {2, 500 * time.Millisecond, 2}}, s.Windows)
		require.Equal(t, int64(7), s.Backlog)
		require.Equal(t, 2*time.Second, s.Tail)
		require.Equal(t, 5, s.Cells, "two permits each 500 ms")
		require.Equal(t, 4, s.CellsAhead)
		require.Equal(t, int64(9), s.Sequence)
		require.Equal(t, w.rdb.StrLen(t.Context(), f.key).Val(), int64(s.Bytes))
		require.Equal(t, beginning.UnixMicro(), s.At.UnixMicro())
		require.Len(t, s.Generation+s.Epoch, 16)
		require.InDelta(t, 62*time.Second, s.TTL, float64(2*time.Second))

		at(1200 * time.Millisecond)
		s = inspected(t, f)
		require.Equal(t, []Window{{100, time.Minute, 6}, {2, 500 * time.Millisecond, 2}}, s.Windows)
		require.Equal(t, int64(3), s.Backlog)
		require.Equal(t, 800*time.Millisecond, s.Tail)
		require.Equal(t, 2, s.CellsAhead)
		at(40 * time.Second)
		s = inspected(t, f)
		require.Zero(t, s.Backlog+s.Windows[1].Held)
		require.Equal(t, int64(9), s.Windows[0].Held)
		require.Zero(t, s.Tail)
	})
}

func TestInspectTellsStoredQuotas(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 10, Per: time.Second})
		queued(t, f, 1, 1)
		quotas := []engine.Quota{{Permits: 20, Per: time.Second}, {Permits: 100, Per: 2 * time.Minute, Burst: 10}}
		require.NoError(t, f.SetQuotas(t.Context(), quotas))
		s := inspected(t, f)
		require.Equal(t, quotas, s.Quotas)
		require.Equal(t, "20/1s 100/2m burst 10", s.Text)
		require.True(t, s.Obeyed, "the queue has become one of theirs")
		require.Positive(t, s.Mixed)
		queued(t, f, 1, 1)
		require.False(t, inspected(t, f).Obeyed)

		require.NoError(t, w.rdb.Set(t.Context(), f.quotaKey(), "plenty", 0).Err())
		_, err := f.inspect(t.Context(), inspectScript)
		require.ErrorIs(t, err, engine.ErrState)
		require.ErrorContains(t, err, "SetQuotas")
		require.NoError(t, w.rdb.Del(t.Context(), f.quotaKey()).Err())
		require.NoError(t, w.rdb.RPush(t.Context(), f.quotaKey(), "plenty").Err())
		_, err = f.inspect(t.Context(), inspectScript)
		require.ErrorIs(t, err, engine.ErrState)
		require.ErrorContains(t, err, "SetQuotas")
	})
}

func TestInspectTellsASlowClock(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.stored(t)
		set(t, f, "1/1s")
		queued(t, f, 5, 1)
		set(t, f, "1/2s")
		s := inspected(t, f)
		require.InDelta(t, 8*time.Second, s.Tail, float64(time.Millisecond))
		require.InDelta(t, 8*time.Second, s.Slowed, float64(time.Millisecond))
		require.InDelta(t, 2, s.Pace, 0.01)
		at(3 * time.Second)
		s = inspected(t, f)
		require.InDelta(t, 5*time.Second, s.Tail, float64(time.Millisecond))
	})
}

func TestInspectTellsTheFlows(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		a, b := f.joins(t, engine.Quota{Permits: 1, Per: time.Second}), f.joins(t, engine.Quota{Permits: 1, Per: time.Second})
		askFor(t, a, engine.Flow{ID: "a", Weight: 1}, 2)
		askFor(t, b, engine.Flow{ID: "b", Weight: 3}, 3)
		askFor(t, f, engine.Flow{ID: "b", Weight: 3}, 1)
		s := inspected(t, f)
		require.Len(t, s.Flows, 2)
		require.Equal(t, Flow{
			ID: flowWord("a"), Weight: 1, Limiters: 1, Need: 1, Share: 2,
			Ends: 1500 * time.Millisecond,
		}, rounded10(s.Flows[0]))
		require.Equal(t, Flow{
			ID: flowWord("b"), Weight: 3, Limiters: 2, Need: 1, Share: 6,
			Ends: 5500 * time.Millisecond,
		}, rounded10(s.Flows[1]))
		require.False(t, s.Flowless)
		at(2 * time.Second)
		require.Len(t, inspected(t, f).Flows, 1, "the other is over")
		queued(t, f, 1, 1)
		require.True(t, inspected(t, f).Flowless)
	})
}

// rounded10 rounds the end down to 10 ms, to which the scripts round it up.
func rounded10(f Flow) Flow {
	f.Ends = f.Ends.Truncate(10 * time.Millisecond)
	return f
}

func TestInspectTellsWhatWasLostAndReset(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		queued(t, f, 4, 1)
		before := inspected(t, f)
		moves(t, f)
		at(400 * time.Millisecond)
		queued(t, f, 2, 1)
		s := inspected(t, f)
		require.Equal(t, []Epoch{{before.Epoch, 4, 4}}, s.Epochs)
		require.NotEqual(t, before.Epoch, s.Epoch)
		require.Equal(t, before.Generation, s.Generation)
		require.False(t, s.Forgotten)
		for range 12 {
			moves(t, f)
			queued(t, f, 1, 1)
		}
		require.True(t, inspected(t, f).Forgotten)

		w.rdb.Del(t.Context(), f.key)
		require.Positive(t, wait(t, f))
		require.Positive(t, inspected(t, f).Full)
		require.NoError(t, f.Reset(t.Context()))
		s = inspected(t, f)
		require.Equal(t, time.Hour, s.Reset)
		require.Zero(t, s.Full)
		require.Zero(t, s.Backlog)
		require.NotEmpty(t, s.Windows)
	})
}

func TestAnErrorOfInspectNamesTheQueueOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	require.NoError(t, rdb.RPush(t.Context(), "fairlimit:{tax}", "foreign").Err())
	_, err := Inspect(t.Context(), rdb, "tax")
	require.ErrorIs(t, err, engine.ErrState)
	require.Regexp(t, `^fairlimit: "tax": `, err.Error())
	require.Equal(t, 1, strings.Count(err.Error(), "fairlimit: "), err)
}

// FuzzReadState: any text is a state or an error.
func FuzzReadState(f *testing.F) {
	head := "fair5 3/1000000/4800 --------\n"
	at := beginning.UnixMicro()
	line := "- 77a6222 k3x9q2ab 39a85018 " + fmt.Sprintf("%16d %16d %16d\n", 5, at, at)
	f.Add(head + line + fmt.Sprintf("%16d %16d %16d %16d %16d %4d %4d %16d\n", 0, 0, 0, 0, 0, 1, 0, 0) +
		fmt.Sprintf("%16d %4d\n", 6, 0) + "7|)Qk2!a!!!!/P.")
	f.Add("fair4 3/1000000 -")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readState(text)
		if err == nil {
			c.tell(&State{}, beginning.UnixMicro())
		}
	})
}

func TestInspectTellsOfAPause(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		queued(t, f, 3, 1)
		at(500 * time.Millisecond)
		pause(t, f, 10*time.Second)
		at(1500 * time.Millisecond)
		s := inspected(t, f)
		require.Equal(t, 9*time.Second, s.Paused)
		require.Equal(t, int64(2), s.Backlog)
		require.InDelta(t, 9*time.Second+1500*time.Millisecond, s.Tail, float64(time.Millisecond))
		at(10*time.Second + 700*time.Millisecond)
		s = inspected(t, f)
		require.Zero(t, s.Paused)
		require.InDelta(t, 1300*time.Millisecond, s.Tail, float64(time.Millisecond))
		require.InDelta(t, -10*time.Second, s.Offset, float64(time.Millisecond))
	})
}
