package fair

import (
	"fmt"
	"math/rand/v2"
	"os"
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

func TestInspectTellsWhichDifferentQuotasAreInUse(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		queued(t, f, 1, 1)
		require.Nil(t, inspected(t, f).InUse)
		for _, text := range []string{"3/1s burst 1", "10/1s", "20/1s 100/2m", "3/1s burst 1"} {
			queued(t, f.joins(t, quotas(t, text)...), 1, 1)
		}
		require.Equal(t, [][]Window{
			{{Permits: 10, Per: time.Second}},
			{{Permits: 3, Per: time.Second}, {Permits: 1, Per: 333333 * time.Microsecond}},
			{{Permits: 100, Per: 2 * time.Minute}, {Permits: 20, Per: time.Second}},
		}, inspected(t, f).InUse)
		for i := range 60 { // more than there is room for
			queued(t, f.joins(t, quotas(t, fmt.Sprintf("%d/1s", 20+i))...), 1, 1)
		}
		require.Greater(t, len(inspected(t, f).InUse), 5)
		at(time.Hour)
		queued(t, f, 1, 1)
		require.Nil(t, inspected(t, f).InUse)

		stored, _ := w.stored(t, quotas(t, "10/1s")...)
		queued(t, stored, 1, 1)
		set(t, stored, "5/1s")
		queued(t, stored, 1, 1)
		require.Nil(t, inspected(t, stored).InUse, "all go by what is stored")
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
		s, err := f.inspect(t.Context(), inspectScript)
		require.ErrorIs(t, err, engine.ErrState)
		require.ErrorContains(t, err, "SetQuotas")
		require.True(t, s.Exists, "the rest can be read")
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

func TestInspectTellsUnitsOfThisQueueOnly(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"))
		require.Equal(t, int64(60), inspected(t, f).Units[0].Sequence)
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		require.Empty(t, inspected(t, f).Units)
		other := f.joins(t, f.quotas[0])
		queued(t, other, 1, 1)
		require.Empty(t, inspected(t, f).Units, "those of a queue that is over")
	})
}

func TestInspectFailsAtUnitsThatCannotBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"), amount(1, "tokens=60"))
		text := w.rdb.Get(t.Context(), f.unitsKey()).Val()
		for _, damaged := range []string{
			"plenty", text[:40], text[:len(text)-3], strings.Replace(text, "100/", "0/", 1),
			strings.Replace(text, " 120 ", " x20 ", 1), strings.Replace(text, "units1", "units2", 1),
		} {
			require.NoError(t, w.rdb.Set(t.Context(), f.unitsKey(), damaged, time.Hour).Err())
			_, err := f.inspect(t.Context(), inspectScript)
			require.ErrorIs(t, err, engine.ErrState, "%q", damaged)
			require.ErrorContains(t, err, ":units")
		}
		require.NoError(t, w.rdb.Del(t.Context(), f.unitsKey()).Err())
		require.NoError(t, w.rdb.RPush(t.Context(), f.unitsKey(), "plenty").Err())
		_, err := f.inspect(t.Context(), inspectScript)
		require.ErrorIs(t, err, engine.ErrState)
	})
}

func TestThePictureOfALineIsWhatTheEngineWouldSay(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		rng := rand.New(rand.NewPCG(1, 2))
		f, at := w.queue(t,
			engine.Quota{Permits: 7, Per: time.Second, Burst: 2}, engine.Quota{Permits: 30, Per: 20 * time.Second})
		paused := false
		for now := time.Duration(0); now < 40*time.Second; now += time.Duration(rng.IntN(700)) * time.Millisecond {
			at(now)
			queued(t, f, 1+rng.IntN(4), 1+rng.IntN(2))
			if !paused && now > 20*time.Second {
				pause(t, f, 3*time.Second)
				paused = true
			}
			s := inspected(t, f)
			require.InDelta(t, status(t, f).Delay, s.Next, float64(2*time.Millisecond), "at %v", now)
			require.Equal(t, s.Backlog, s.Granted(0, time.Hour))
			require.Zero(t, s.Granted(s.Tail, time.Hour))
			parts := int64(0)
			for from := time.Duration(0); from < 30*time.Second; from += 40 * time.Millisecond {
				parts += s.Granted(from, from+40*time.Millisecond)
			}
			require.Equal(t, s.Granted(0, 30*time.Second), parts)
			if s.Paused == 0 {
				require.Equal(t, s.Windows[0].Held, s.Granted(-s.Windows[0].Per, 0))
			}
		}
	})
}

// ceilings are those that Inspect tells of.
func ceilings(t testing.TB, f *fair, flows ...string) []Ceiling {
	t.Helper()
	s := inspected(t, f)
	all, err := f.inspectLogs(t.Context(), &s, flows)
	require.NoError(t, err)
	return all
}

func TestInspectTellsWhatWasSaidOfAFlow(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, quotas(t, "10/1s")...)
		require.Empty(t, ceilings(t, f))
		flow := flowUnder(t, f, "a", "2/1m")
		require.NoError(t, f.PauseFlow(t.Context(), "b", 30*time.Second))
		require.True(t, take(t, f, engine.Request{N: 1, Flow: flow})[0].Granted)
		two := Ceiling{Flow: "a", Windows: []Window{{2, time.Minute, 1}}}
		half := 30*time.Second + time.Microsecond // no turn is granted at the end itself
		paused := Ceiling{Flow: "b", Next: half, Paused: half}
		require.Equal(t, []Ceiling{two, paused}, ceilings(t, f))
		require.Equal(t, []Ceiling{two}, ceilings(t, f, "c", "a", "a"), "only those that are named and there")

		five := quotas(t, "1/5s")[0]
		require.NoError(t, f.SetCeiling(t.Context(), "a", &five))
		at(time.Second)
		stored := Ceiling{Flow: "a", Windows: []Window{{1, 5 * time.Second, 1}}, Quota: five, Next: 4 * time.Second}
		require.Equal(t, []Ceiling{stored}, ceilings(t, f, "a"))
		at(5 * time.Second)
		require.Zero(t, ceilings(t, f, "a")[0].Windows[0].Held, "it has just left")
		require.NoError(t, f.SetCeiling(t.Context(), "a", nil))
		require.Equal(t, []Ceiling{two}, ceilings(t, f, "a"), "the given one is still known")
		require.NoError(t, f.Reset(t.Context()))
		two.Windows[0].Held = 0
		require.Equal(t, []Ceiling{two, {Flow: "b"}}, ceilings(t, f), "a reset forgets what counted")

		require.NoError(t, w.rdb.ZAdd(t.Context(), f.logKey("b"), redis.Z{Score: 1, Member: "x"}).Err())
		s := inspected(t, f)
		_, err := f.inspectLogs(t.Context(), &s, nil)
		require.ErrorIs(t, err, engine.ErrState)
		require.ErrorContains(t, err, f.logKey("b"))
	})
}

// The logs are found on the server that has them, under any name and id.
func TestInspectFindsTheLogsOfAQueue(t *testing.T) {
	t.Parallel()
	for _, rdb := range []redis.UniversalClient{redistest.Standalone(t), redistest.Cluster(t)} {
		for i := range 5 { // on every node of a Cluster
			name := fmt.Sprintf(`%s[*?\%d`, redistest.Name(t), i)
			e, err := New(engine.Config{Client: rdb, Name: name})
			require.NoError(t, err)
			f, quota := e.(*fair), quotas(t, "1/1s")[0]
			for n := range logsAtOnce + 1 {
				require.NoError(t, f.SetCeiling(t.Context(), fmt.Sprintf("tenant}%03d", n), &quota))
			}
			s, err := Inspect(t.Context(), rdb, name, WithCeilings())
			require.NoError(t, err)
			require.Len(t, s.Ceilings, logsAtOnce+1)
			require.Equal(t, Ceiling{
				Flow: "tenant}100", Windows: []Window{{1, time.Second, 0}}, Quota: quota,
			}, s.Ceilings[100])
		}
	}
}

// shows requires each line of a state to be in the documentation, with the
// server, the generation and the epoch that it has there.
func shows(t *testing.T, doc, state string) {
	t.Helper()
	for _, line := range strings.Split(strings.Trim(state, "\n"), "\n") {
		line = strings.TrimRight(strings.ReplaceAll(line, "\x00", ""), " ")
		if len(line) == firstLineBytes-1 {
			line = line[:2] + "77a6222 k3x9q2ab 39a85018" + line[27:]
		}
		require.Contains(t, doc, "\n//\t"+line+"\n")
	}
}

func TestTheSamplesInTheDocumentationAreStates(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	doc := strings.ReplaceAll(string(text), " \\\n//\t", " ") // a line that is too long is broken
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		for range 5 {
			queued(t, f, 1, 1)
		}
		shows(t, doc, w.rdb.Get(t.Context(), f.key).Val())
		pause(t, f, 30*time.Second)
		lines := strings.SplitN(w.rdb.Get(t.Context(), f.key).Val(), "\n", 5)
		shows(t, doc, strings.Join(lines[:4], "\n"))
		shows(t, doc, lines[4][ringCells*cellBytes:])

		f, _ = w.queue(t, engine.Quota{Permits: 3, Per: time.Second})
		other := f.joins(t, engine.Quota{Permits: 3, Per: time.Second})
		f.member, other.member = "00a", "00b"
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 3)
		askFor(t, other, engine.Flow{ID: "b", Weight: 2}, 2)
		state := w.rdb.Get(t.Context(), f.key).Val()
		shows(t, doc, state[f.layout[0].(int)+1+ringCells*cellBytes+noteBytes:])
	})
}

// Every part of the scripts of callers is explained.
func TestTheDocumentationNamesTheParts(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, part := range storedScripts.take.Parts() {
		require.Contains(t, string(doc), "\n//\t"+strings.TrimPrefix(part, "fair/")+" ")
	}
}
