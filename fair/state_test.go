package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// unreadable requires that the engine says so whatever it is asked, and leaves
// the key alone.
func unreadable(t testing.TB, f *fair) {
	before, left := f.client.Dump(t.Context(), f.key).Val(), f.client.PTTL(t.Context(), f.key).Val() < 0
	_, err := f.Take(t.Context(), []engine.Request{{N: 1, MaxWait: engine.Forever}})
	assert.ErrorIs(t, err, engine.ErrState)
	_, err = f.Status(t.Context())
	assert.ErrorIs(t, err, engine.ErrState)
	assert.ErrorIs(t, f.Pause(t.Context(), time.Hour), engine.ErrState)
	_, err = f.inspect(t.Context(), inspectScript)
	assert.ErrorIs(t, err, engine.ErrState)
	assert.ErrorContains(t, err, "Reset")
	assert.ErrorIs(t, f.GiveBack(t.Context(), []engine.Grant{{ID: "x", At: 1 << 52, N: 1}}), engine.ErrState)
	require.Equal(t, before, f.client.Dump(t.Context(), f.key).Val())
	require.Equal(t, left, f.client.PTTL(t.Context(), f.key).Val() < 0)
}

func TestWhatIsNoStateIsAnErrorAndNeverAGrant(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		ctx := t.Context()
		f, at := w.queue(t, quotas(t, "20/1s burst 3")...)
		askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 6)
		moves(t, f)
		at(time.Millisecond)
		askFor(t, f, engine.Flow{ID: "b", Weight: 1}, 6)
		state, header := w.rdb.Get(ctx, f.key).Val(), headerOf(f)
		plain, _ := w.queue(t, f.quotas...)
		queued(t, plain, 9, 1)
		stretches := header + ringCells*cellBytes + 4*17
		for what, text := range map[string]string{
			"nothing": "", "a number": "7", "a megabyte": strings.Repeat("x", 1<<20), "zeros": string(make([]byte, 4000)),
			"another version": "fair4 3/1000000 - 6 0 0 74 .:0123456   3\n",
			"a later version": strings.Replace(state, "fair5", "fair6", 1),
			"a shorter line":  strings.Replace(state, " ", "", 2),
			"no number":       state[:header-20] + "x" + state[header-19:],
			"a window of 0":   strings.Replace(state, "20/1000000", "20/0000000", 1),
			"no places":       strings.Replace(state, "/80,", "/00,", 1), // up from which a loop would count
			"no ring":         state[:header],
			"a short header":  state[:header-1],
		} {
			require.NotEqual(t, state, text, what)
			require.NoError(t, w.rdb.Set(ctx, f.key, text, time.Hour).Err())
			unreadable(t, f)
			if text != "" && !strings.HasPrefix(text, "fair5") { // a look reads the header only
				require.ErrorIs(t, f.Look(ctx), engine.ErrState, what)
			}
			require.False(t, t.Failed(), what)
		}
		for what, text := range map[string]string{ // which only who steers looks at
			"no ring, no notes":       w.rdb.Get(ctx, plain.key).Val()[:header],
			"a pace below 1":          state[:stretches] + "1800000000000000:999999::20/1000000/80 " + state[stretches+39:],
			"a stretch of no windows": state[:stretches] + "1800000000000000:2000000: " + state[stretches+25:],
		} {
			require.NoError(t, w.rdb.Set(ctx, f.key, text, time.Hour).Err())
			require.ErrorIs(t, f.Pause(ctx, time.Hour), engine.ErrState, what)
		}
		notes := header + ringCells*cellBytes
		for what, text := range map[string]string{ // which callers do not look at
			"an unknown mark": strings.Replace(state, "\nnF", "\nxF", 1),
			"damaged notes":   state[:notes] + strings.Repeat("?", 60) + state[notes+60:],
		} {
			_, err := readState(text)
			require.ErrorIs(t, err, errDamaged, what)
		}
		for what, put := range map[string]func() error{
			"a list":       func() error { return w.rdb.RPush(ctx, f.key, "x").Err() },
			"a hash":       func() error { return w.rdb.HSet(ctx, f.key, "x", 1).Err() },
			"a sorted set": func() error { return w.rdb.ZAdd(ctx, f.key, redis.Z{Member: "x"}).Err() },
			"no end":       func() error { return w.rdb.Set(ctx, f.key, state, 0).Err() },
		} {
			require.NoError(t, w.rdb.Del(ctx, f.key).Err())
			require.NoError(t, put())
			unreadable(t, f)
			require.False(t, t.Failed(), what)
		}
	})
}

// headerOf is how many bytes come before the ring.
func headerOf(f *fair) int { return len(f.head) + headerBytes + windowBytes*len(f.windows) }

// FuzzState puts anything into the key. The engine either says that it cannot
// read it and leaves it alone, or counts as it reads: no length of a window gets
// more than its permits, whatever the key says of what was granted before.
//
//	go test ./fair -run - -fuzz FuzzState -fuzzminimizetime 1x
func FuzzState(f *testing.F) {
	damaged := newDamaged(f)
	for _, state := range damaged.states {
		f.Add(state)
		for i := 0; i < len(state); i += 1 + len(state)/redistest.Long(2, 20) {
			f.Add(state[:i])
			for _, letter := range "9x0- " {
				f.Add(state[:i] + string(letter) + state[i+1:])
			}
			f.Add(state[:i] + "-" + state[i:])
		}
	}
	f.Fuzz(damaged.ask)
}

// Damage at random places: some bytes, one field, or the ring.
func TestADamagedStateIsAnErrorOrCountsAsItReads(t *testing.T) {
	t.Parallel()
	damaged := newDamaged(t)
	rng := rand.New(rand.NewPCG(1, 31))
	for range redistest.Long(300, 1_500) {
		damaged.ask(t, anyDamage(rng, damaged.states[rng.IntN(len(damaged.states))]))
	}
}

// strangeNumbers are what a script may take for one, and those near a border.
var strangeNumbers = strings.Fields("nan -nan inf -inf 0x1F 1e99 -1 0 4503599627370495 4503599627370496 " +
	"9007199254740993 9999999999999999 689869781055 689869781056 205 206 207 9999 .5 1.5 -0")

// fieldEnds are where the numbers end, counted from the second line on.
var fieldEnds = []int{44, 61, 78, 95, 112, 129, 146, 163, 168, 173, 190, 207, 212, 229, 234, 251, 256}

// anyDamage changes the state.
func anyDamage(rng *rand.Rand, state string) string {
	bytes := []byte(state)
	for range 1 + rng.IntN(3) {
		switch rng.IntN(5) {
		case 0: // any byte
			bytes[rng.IntN(len(bytes))] = byte(rng.IntN(256))
		case 1: // one of the header, which stays printable
			bytes[rng.IntN(min(len(bytes), 300))] = " 0123456789-/,ex\n"[rng.IntN(17)]
		case 2: // a number, by another that ends there
			other := strangeNumbers[rng.IntN(len(strangeNumbers))]
			if rng.IntN(2) == 0 {
				other = fmt.Sprint(rng.Int64N(1 << rng.IntN(60)))
			}
			end := strings.Index(state, "\n") + 1 + fieldEnds[rng.IntN(len(fieldEnds))]
			if end <= len(bytes) {
				copy(bytes[max(0, end-len(other)):], other)
			}
		case 3: // a stretch
			at := rng.IntN(len(bytes))
			for i := at; i < min(len(bytes), at+1+rng.IntN(60)); i++ {
				bytes[i] = byte('!' + rng.IntN(94))
			}
		case 4: // what is left of it
			bytes = bytes[:1+rng.IntN(len(bytes))]
		}
	}
	return string(bytes)
}

// damaged is engines of one queue, and states that they left.
type damaged struct {
	rdb     *redis.Client
	engines []*fair
	states  []string
}

func newDamaged(t testing.TB) *damaged {
	d := &damaged{rdb: redistest.Standalone(t)}
	name := redistest.Name(t)
	for _, quotas := range [][]engine.Quota{
		{{Permits: 3, Per: time.Second}},
		{{Permits: 100, Per: time.Minute, Burst: 7}},
		{{Permits: 50, Per: time.Minute}, {Permits: 2, Per: time.Second}, {Permits: 1, Per: 100 * time.Millisecond}},
	} {
		e, err := New(engine.Config{Client: d.rdb, Name: name, Quota: quotas[0], Extra: quotas[1:]})
		require.NoError(t, err)
		f := e.(*fair)
		d.engines = append(d.engines, f)
		for _, count := range []int{1, 1000} {
			d.rdb.Del(t.Context(), f.key)
			grants := queued(t, f, count, 1)
			d.keep(t, f)
			giveBack(t, f, grants[count/2:min(count, count/2+90)]...)
			d.keep(t, f)
			require.NoError(t, f.Pause(t.Context(), time.Minute))
			d.keep(t, f)
			askFor(t, f, engine.Flow{ID: "a", Weight: 1}, 1)
			d.keep(t, f)
		}
	}
	return d
}

func (d *damaged) keep(t testing.TB, f *fair) {
	d.states = append(d.states, d.rdb.Get(t.Context(), f.key).Val())
}

func (d *damaged) ask(t *testing.T, state string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a script that does not end is no answer
	defer cancel()
	for _, f := range d.engines {
		require.NoError(t, d.rdb.Set(t.Context(), f.key, state, time.Minute).Err())
		f.memory = memory{}
		status, err := f.Status(ctx)
		if err == nil {
			require.GreaterOrEqual(t, status.Delay, time.Duration(0))
			require.GreaterOrEqual(t, status.Queued, 0)
			require.GreaterOrEqual(t, status.Available, 0)
		} else {
			require.ErrorIs(t, err, engine.ErrState)
		}
		if err := f.Look(ctx); err != nil {
			require.ErrorIs(t, err, engine.ErrState)
		}
		var held []model.Turn
		for range 8 {
			if held = d.take(ctx, t, f, held); held == nil {
				break
			}
		}
		require.NoError(t, model.Strict(modelsOf(f.windows), held), "%.400q", state)
	}
}

// take takes permits, and gives some of them back. What the engine grants to
// one who asks again and again is what the windows let through. It returns nil
// if the state cannot be read.
func (d *damaged) take(ctx context.Context, t *testing.T, f *fair, held []model.Turn) []model.Turn {
	before := d.rdb.Get(t.Context(), f.key).Val()
	answers, err := f.Take(ctx, []engine.Request{{N: 1, MaxWait: time.Hour}, {N: 1, MaxWait: time.Hour}, {N: 1}})
	if err != nil {
		require.ErrorIs(t, err, engine.ErrState)
		after := d.rdb.Get(t.Context(), f.key).Val() // but for cells that no header counts
		same := before == after || len(before) >= headerOf(f) && before[:headerOf(f)] == after[:headerOf(f)]
		require.True(t, same, "%.400q was changed: %v", before, err)
		return nil
	}
	var last engine.Grant
	for _, a := range answers {
		require.GreaterOrEqual(t, a.Wait, time.Duration(0))
		if a.Granted {
			held = append(held, model.Turn{Slot: a.Grant.At, N: 1})
			last = a.Grant
		}
	}
	if len(held)%3 == 2 {
		if err := f.GiveBack(ctx, []engine.Grant{last}); err != nil {
			require.ErrorIs(t, err, engine.ErrState)
		}
		held = held[:len(held)-1]
	}
	return held
}
