package fair

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// The scripts do what internal/model does, to the microsecond: whatever is
// changed in one has to be changed in the other.
func TestTheScriptsAnswerAsTheirModel(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for seed := range uint64(redistest.Long(14, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := anyModelled(t, w, seed)
			for step := range redistest.Long(250, 600) {
				h.step(step)
			}
		})
	}
}

// A history in which permits are pulled forward to a cell that then seems to be
// a row which reaches back behind other cells.
func TestPermitsThatWerePulledForwardAreNoRow(t *testing.T) {
	t.Parallel()
	h := anyModelled(t, realWorld(t), 10_000_039)
	for step := range 600 {
		h.step(step)
	}
}

// modelled is a queue on a server beside its model.
type modelled struct {
	*testing.T
	*fair
	seed  uint64
	rng   *rand.Rand
	at    func(time.Duration)
	now   time.Duration
	model *model.Queue
	label int64 // that the queue's clock shows
	held  []engine.Grant
	what  string

	heardOf engine.News // last

	longest, turn time.Duration // length, and time that a permit takes
	fewest        int           // permits that fit every window

	// How things are for a while.
	pace     time.Duration // between two steps
	size     int           // permits of one
	together int           // who come at once
	leaving  int           // % of the steps in which somebody leaves
	pausing  int           // % of the steps in which somebody pauses the queue
}

func anyModelled(t *testing.T, w world, seed uint64) *modelled {
	rng := rand.New(rand.NewPCG(seed, 77))
	quotas := make([]engine.Quota, 1+rng.IntN(3)*rng.IntN(2))
	for i := range quotas {
		quotas[i] = anyQuota(rng)
	}
	f, at := w.queue(t, quotas...)
	h := &modelled{T: t, fair: f, seed: seed, rng: rng, at: at, fewest: f.most}
	f.heard = func(n *engine.News) { h.heardOf = *n }
	var windows []model.Window
	for _, w := range f.windows {
		windows = append(windows, model.Window(w))
		h.longest = max(h.longest, microseconds(w.Length))
		h.turn = max(h.turn, microseconds(w.Length/int64(w.Permits)))
	}
	h.model = model.NewQueue(windows)
	return h
}

func anyQuota(rng *rand.Rand) engine.Quota {
	q := engine.Quota{
		Permits: []int{1, 1, 2, 3, 7, 10, 60, 130, 200, 400, 1000, 1_000_000}[rng.IntN(12)],
		Per: []time.Duration{
			time.Second, 10 * time.Second, 999_983 * time.Microsecond, 7_919_001 * time.Nanosecond, time.Minute,
			127 * time.Millisecond, time.Hour, day,
		}[rng.IntN(8)],
	}
	switch rng.IntN(4) {
	case 0:
		q.Burst = 1 + rng.IntN(q.Permits)
	case 1:
		q.Burst = 1 + rng.IntN(min(q.Permits, 8))
	}
	if q.Per/time.Duration(q.Permits)*time.Duration(q.Burst) < 100*time.Microsecond {
		q.Burst = 0
	}
	return q
}

func (h *modelled) step(step int) {
	rng := h.rng
	if step == 0 || rng.IntN(40) == 0 {
		h.pace = []time.Duration{
			0, h.turn / 10, h.turn / 3, h.turn, 2 * h.turn, 20 * h.turn, h.longest / 200,
		}[rng.IntN(7)]
		h.size = []int{1, 1, 1, 1 + rng.IntN(max(1, h.fewest/50)), 1 + rng.IntN(h.fewest)}[rng.IntN(5)]
		h.together = []int{1, 1, 3, 30}[rng.IntN(4)]
		h.leaving = []int{0, 0, 10, 40, 70, 95}[rng.IntN(6)]
		h.pausing = []int{0, 0, 1, 10}[rng.IntN(4)]
	}
	if rng.IntN(3) > 0 {
		h.now += time.Duration(rng.Int64N(int64(2*h.pace) + 2000))
	}
	if rng.IntN(300) == 0 {
		h.now += time.Duration(rng.Int64N(int64(3 * h.longest)))
	}
	h.now = h.now.Truncate(time.Microsecond)
	h.at(h.now)
	h.what = fmt.Sprintf("seed %d, %v, step %d at %v", h.seed, h.windows, step, h.now)
	micros := beginning.Add(h.now).UnixMicro()
	h.label = h.model.Now(micros)
	h.held = slices.DeleteFunc(h.held, func(g engine.Grant) bool { return !h.model.Ahead(g.At) })
	switch {
	case rng.IntN(100) < h.leaving && len(h.held) > 0:
		h.leave(micros)
	case rng.IntN(100) < h.pausing:
		h.pause(micros)
	default:
		h.come(micros)
	}
	h.look(micros)
}

// look asks how things stand.
func (h *modelled) look(micros int64) {
	status, err := h.Status(h.Context())
	require.NoError(h, err)
	require.Equal(h, h.model.Wait(h.model.Earliest(micros, 1)), status.Delay.Microseconds(), "%s: Status", h.what)
	require.Equal(h, h.rest(), status.Paused, "%s: Status", h.what)
	h.heardOf = engine.News{}
	require.NoError(h, h.Look(h.Context()))
	if h.heardOf.Queue != "" {
		require.Equal(h, h.rest(), h.heardOf.Stands, "%s: Look", h.what)
	}
}

// rest is how much longer the queue is paused.
func (h *modelled) rest() time.Duration { return microseconds(h.model.Wait(h.label)) }

// pause stops the queue. Some time later the server's clock may be set as well:
// back no further than the queue's is behind it, as a queue that ends by itself
// forgets what is beyond.
func (h *modelled) pause(micros int64) {
	d := time.Duration(h.rng.Int64N(int64([]time.Duration{h.turn, 3 * h.turn, h.longest}[h.rng.IntN(3)])+1) + 1000)
	d = d.Truncate(time.Microsecond)
	require.NoError(h, h.Pause(h.Context(), d))
	h.model.Pause(micros, d.Microseconds())
	if h.rng.IntN(3) == 0 {
		h.slow(micros)
	}
	h.label = h.model.Now(micros)
	switch h.rng.IntN(4) {
	case 0:
		h.now -= microseconds(h.rng.Int64N(max(0, -h.model.Offset()) + 1))
	case 1:
		h.now += microseconds(h.rng.Int64N(2 * d.Microseconds()))
	}
}

// notes are what a state that is not plain says of its clock.
var notes = regexp.MustCompile(` \+ (\d+) -?\d+ (\d+ \d+ \d+ [01])[ \d]*\n`)

// slow lets the clock of a queue that has just been paused run slower, as other
// quotas would.
func (h *modelled) slow(micros int64) {
	until := h.model.Now(micros) + h.rng.Int64N(int64(3*h.longest/time.Microsecond))
	h.model.Slow(micros, until, 1_000_000+h.rng.Int64N(3_000_000))
	state := h.client.Get(h.Context(), h.key).Val()
	slow := notes.ReplaceAllString(state, fmt.Sprintf(" + $1 %d $2 %s\n", h.model.Offset(), h.model.Timeline()))
	require.NotEqual(h, state, slow)
	require.NoError(h, h.client.Set(h.Context(), h.key, slow, redis.KeepTTL).Err())
}

// come asks for permits, in one run of the script.
func (h *modelled) come(micros int64) {
	n, longest := 1+h.rng.IntN(h.size), longestWait/10 // slots must be below 2⁵²
	if h.rng.IntN(3) == 0 {
		longest = time.Duration(h.rng.Int64N(int64(h.longest))).Truncate(time.Microsecond)
	}
	mixed := h.rng.IntN(4) == 0
	requests := make([]engine.Request, h.together)
	for i := range requests {
		requests[i] = engine.Request{N: n, MaxWait: longest}
		if mixed && h.rng.IntN(3) == 0 {
			n = 1 + h.rng.IntN(h.size)
		}
	}
	answers, err := h.Take(h.Context(), requests)
	require.NoError(h, err)
	var run []model.Request
	for _, r := range requests[:len(answers)] {
		run = append(run, model.Request{N: r.N, Longest: r.MaxWait.Microseconds()})
	}
	for i, slot := range h.model.Run(micros, run...) {
		a := answers[i]
		require.Equal(h, h.model.Wait(slot), a.Wait.Microseconds(), "%s: answer %d of %v", h.what, i, run)
		require.Equal(h, h.model.Wait(slot) <= run[i].Longest, a.Granted, "%s: answer %d of %v", h.what, i, run)
		require.Equal(h, h.rest(), a.Paused, "%s: answer %d of %v", h.what, i, run)
		if a.Granted {
			require.Equal(h, slot, a.Grant.At, "%s: answer %d of %v", h.what, i, run)
			h.held = append(h.held, a.Grant)
		}
	}
}

// leave gives one back: anyone, the last, one of the last, the next.
func (h *modelled) leave(micros int64) {
	last := len(h.held) - 1
	i := []int{h.rng.IntN(last + 1), last, last - h.rng.IntN(min(40, last+1)), 0}[h.rng.IntN(4)]
	g := h.held[i]
	h.held = slices.Delete(h.held, i, i+1)
	giveBack(h.T, h.fair, g)
	require.True(h, h.model.Release(micros, model.Turn{Slot: g.At, N: g.N}), "%s: %v", h.what, g)
}

// Wide cells, and a backlog of several windows: bytes are short.
func TestTheScriptsAnswerAsTheirModelWhereCellsAreWide(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	for _, permits := range []int{1_000_000, 10_000_000} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			t.Parallel()
			f, at := w.queue(t, engine.Quota{Permits: permits, Per: day})
			h := &modelled{T: t, fair: f, rng: rand.New(rand.NewPCG(1, 1)), at: at}
			h.model = model.NewQueue([]model.Window{{Permits: permits, Length: day.Microseconds()}})
			micros := func() int64 { return beginning.Add(h.now).UnixMicro() }
			for i := range 125 * redistest.Long(4, 12) {
				answers := take(t, f, engine.Request{N: permits / 125, MaxWait: engine.Forever})
				slot := h.model.Run(micros(), model.Request{N: permits / 125, Longest: math.MaxInt64})[0]
				require.Equal(t, slot, answers[0].Grant.At, "turn %d", i)
				if h.held = append(h.held, answers[0].Grant); i < 125 {
					h.now += day / 150
					at(h.now)
				}
			}
			h.now += day
			at(h.now)
			h.model.Now(micros())
			h.held = slices.DeleteFunc(h.held, func(g engine.Grant) bool { return !h.model.Ahead(g.At) })
			for len(h.held) > 0 {
				h.what = fmt.Sprintf("%d are left", len(h.held))
				h.leave(micros())
				h.look(micros())
			}
			last := take(t, f, engine.Request{N: permits, MaxWait: engine.Forever})[0]
			require.Equal(t, h.model.Wait(h.model.Earliest(micros(), permits)), last.Wait.Microseconds())
		})
	}
}
