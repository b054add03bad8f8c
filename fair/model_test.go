package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// Random histories of all that callers do to one queue, each answer held against
// the definition in internal/model.
func TestTheScriptsKeepTheDefinition(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for seed := range uint64(w.many(redistest.Long(60, 200))) {
			h := anyModelled(t, w, seed)
			for step := range 300 {
				h.step(step)
			}
			h.ends()
		}
	})
}

// modelled is a queue on a server beside the definition.
type modelled struct {
	*testing.T
	w     world
	seed  uint64
	rng   *rand.Rand
	at    func(time.Duration)
	now   time.Duration
	clock model.Clock
	label int64 // that the queue's clock shows

	callers []*fair         // each with windows of its own
	last    *fair           // that wrote the queue's windows, nil if nobody has
	asked   map[*fair]int64 // the label when it asked last
	knows   map[*fair]int64 // the queue knows its windows since
	coarse  bool            // others with other windows have come
	held    []engine.Grant
	turns   []model.Turn // the same
	given   bool         // permits were given back
	blurred bool         // cells may have merged
	longest int64        // window
	tail    int64        // the farthest that the queue has been ahead
	what    string

	// How things are for a while.
	pace     time.Duration // between two steps
	size     int           // permits of one
	together int           // who come at once
	leaving  int           // % of the steps in which somebody leaves
	pausing  int           // % of the steps in which somebody pauses the queue
	flows    int           // how many ask, 0 if none do
}

func anyModelled(t *testing.T, w world, seed uint64) *modelled {
	h := &modelled{
		T: t, w: w, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)),
		asked: map[*fair]int64{}, knows: map[*fair]int64{},
	}
	first, at := w.queue(t, h.anyQuotas()...)
	h.at, h.callers = at, []*fair{first}
	for range h.rng.IntN(3) * h.rng.IntN(2) {
		h.callers = append(h.callers, first.joins(t, h.anyQuotas()...))
	}
	for _, f := range h.callers {
		h.longest = max(h.longest, f.windows[0].Length)
	}
	return h
}

// anyQuotas are one to six windows.
func (h *modelled) anyQuotas() []engine.Quota {
	quotas := make([]engine.Quota, 1+h.rng.IntN(3)*h.rng.IntN(2))
	for i := range quotas {
		quotas[i] = anyQuota(h.rng)
	}
	return quotas
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
	f := h.callers[rng.IntN(len(h.callers))]
	if step == 0 || rng.IntN(40) == 0 {
		h.change(f)
	}
	if rng.IntN(200) == 0 {
		h.setBack(f, time.Duration(rng.Int64N(int64(time.Hour))))
	}
	if rng.IntN(3) > 0 {
		h.now += time.Duration(rng.Int64N(int64(2*h.pace) + 2000))
	}
	if rng.IntN(300) == 0 {
		h.now += time.Duration(rng.Int64N(3 * microseconds(h.longest).Nanoseconds()))
	}
	h.now = h.now.Truncate(time.Microsecond)
	h.at(h.now)
	if h.w.rdb.Exists(h.Context(), f.key).Val() == 0 {
		h.begins()
	}
	if h.last != nil && rng.IntN(100) == 0 {
		h.countsOn(h.last)
	}
	micros := beginning.Add(h.now).UnixMicro()
	h.clock.Set(micros)
	h.label = h.clock.Now()
	if rng.IntN(3) == 0 {
		f.memory = memory{} // those of a stranger
	}
	h.what = fmt.Sprintf("seed %d, %v, step %d at %v", h.seed, f.windows, step, h.now)
	switch {
	case rng.IntN(100) < h.leaving && len(h.held) > 0:
		h.leave(f)
	case rng.IntN(100) < h.pausing:
		d := time.Duration(rng.Int64N(int64(h.pace)+int64(time.Millisecond)) + 1000).Truncate(time.Microsecond)
		require.NoError(h, f.Pause(h.Context(), d))
		h.clock.Pause(micros, d.Microseconds())
	default:
		h.come(f)
	}
}

// setBack sets the server's clock, once the state has the moment. To who
// remembers when it was told something, no time has passed meanwhile.
func (h *modelled) setBack(f *fair, d time.Duration) {
	if h.w.rdb.Exists(h.Context(), f.key).Val() == 0 {
		return
	}
	pause(h, f, time.Microsecond)
	h.clock.Pause(beginning.Add(h.now).UnixMicro(), 1)
	h.now -= d
	for _, f := range h.callers {
		f.memory = memory{}
	}
}

// begins forgets a queue that has ended, and those who remember its pauses.
func (h *modelled) begins() {
	if h.clock.Offset() != 0 {
		for _, f := range h.callers {
			f.memory = memory{}
		}
	}
	h.clock, h.held, h.turns, h.given, h.blurred, h.last = model.Clock{}, nil, nil, false, false, nil
}

// change is how things are from now on.
func (h *modelled) change(f *fair) {
	rng, longest := h.rng, microseconds(f.windows[0].Length)
	turn := longest / time.Duration(f.windows[0].Permits)
	h.pace = []time.Duration{0, turn / 10, turn / 3, turn, 2 * turn, 20 * turn, longest / 200}[rng.IntN(7)]
	h.size = []int{1, 1, 1, 1 + rng.IntN(max(1, f.most/50)), 1 + rng.IntN(f.most)}[rng.IntN(5)]
	h.together = []int{1, 1, 3, 30}[rng.IntN(4)]
	h.leaving = []int{0, 0, 10, 40, 70, 95}[rng.IntN(6)]
	h.pausing = []int{0, 0, 1, 10}[rng.IntN(4)]
	h.flows = []int{0, 0, 0, 1, 5}[rng.IntN(5)]
}

// come asks for permits, in one run of the script.
func (h *modelled) come(f *fair) {
	rng, most := h.rng, min(h.size, f.most)
	n, longest := 1+rng.IntN(most), longestWait/10 // slots must be below 2⁵²
	if rng.IntN(3) == 0 {
		longest = time.Duration(rng.Int64N(int64(microseconds(h.longest)))).Truncate(time.Microsecond)
	}
	mixed := rng.IntN(4) == 0
	var flow *engine.Flow
	if h.flows > 0 {
		flow = &engine.Flow{ID: fmt.Sprint(rng.IntN(h.flows)), Weight: 1 + rng.IntN(3), LookAhead: 100}
	}
	requests := make([]engine.Request, h.together)
	for i := range requests {
		requests[i] = engine.Request{N: n, MaxWait: longest, Flow: flow}
		if mixed && rng.IntN(3) == 0 {
			n = 1 + rng.IntN(most)
		}
	}
	told := h.asks(f)
	before, same := h.state(f), f == h.last && flow == nil
	h.coarse, h.last = h.coarse || h.last != nil && f != h.last, f
	if len(h.callers) > 1 && h.label-h.asked[f] >= f.windows[0].Length {
		h.knows[f] = h.label // what was granted before may be forgotten
	}
	h.asked[f] = h.label
	turns := h.turns
	answers, err := f.Take(h.Context(), requests)
	require.NoError(h, err, h.what)
	require.NotEmpty(h, answers)
	if same && requests[0].N == 1 {
		require.Equal(h, told.Delay, answers[0].Wait, "%s: as Status told", h.what)
	}
	if flow == nil && requests[0].N <= told.Available {
		require.Zero(h, answers[0].Wait, "%s: as Status told", h.what)
	}
	for i, a := range answers {
		h.judge(f, requests[i], a)
		same = same && !a.Granted
	}
	if same && strings.HasPrefix(before, f.head) { // else the queue goes back to the caller's own windows
		require.Equal(h, before, h.state(f), "%s: a refusal writes nothing", h.what)
	}
	if k := len(h.turns); k > len(turns) && h.tail < month {
		lives := microseconds(h.clock.Wait(h.turns[k-1].Slot) + f.windows[0].Length)
		require.GreaterOrEqual(h, h.w.ttl(h, f.key), lives.Truncate(time.Millisecond), "%s: the key lives on", h.what)
	}
}

// month is for how long the life of a key can be told, which is a thousand times
// as long.
const month = int64(30 * day / time.Microsecond)

// asks is what Status tells. Inspect tells the same of a queue of these windows.
func (h *modelled) asks(f *fair) engine.Status {
	told := status(h, f)
	if s := inspected(h, f); s.Exists && f == h.last && len(h.turns) > 0 {
		require.Equal(h, told.Paused, s.Paused, h.what)
		require.Equal(h, told.Queued, int(s.Backlog), h.what)
		free := int64(1 << 52)
		for _, window := range s.Windows {
			free = min(free, int64(window.Permits)-window.Held)
		}
		if told.Queued == 0 && told.Paused == 0 {
			require.Equal(h, told.Available, int(max(0, free)), h.what)
		}
	}
	return told
}

func (h *modelled) state(f *fair) string { return h.w.rdb.Get(h.Context(), f.key).Val() }

// judge compares one answer with the definition: never sooner, and later by no
// more than what merged cells cost.
func (h *modelled) judge(f *fair, r engine.Request, a engine.Answer) {
	if a.Left {
		return
	}
	windows := modelsOf(f.windows)
	known := slices.IndexFunc(h.turns, func(t model.Turn) bool { return t.Slot >= h.knows[f] })
	earliest, latest := h.label, h.label
	if known >= 0 {
		earliest = max(earliest, model.Earliest(windows, h.turns[known:], r.N))
		// Turns of others need not obey the windows that imply these.
		all, err := allWindowsOf(f.quotas, f.guard)
		require.NoError(h, err)
		latest = max(latest, model.Earliest(modelsOf(all), h.turns[known:], r.N))
	}
	what := fmt.Sprintf("%s: %+v got %+v", h.what, r, a)
	require.GreaterOrEqual(h, a.Wait.Microseconds(), h.clock.Wait(earliest), what)
	latest = max(earliest, latest) + h.tolerance(f, earliest, r.N)
	if r.Flow != nil { // others may be active still
		latest = max(latest, model.Evenly(windows, h.turns, r.N))
	}
	require.LessOrEqual(h, a.Wait.Microseconds(), h.clock.Wait(latest), what)
	require.Equal(h, a.Wait <= r.MaxWait, a.Granted, what)
	require.Equal(h, h.clock.Wait(h.label), a.Paused.Microseconds(), what)
	if !a.Granted {
		return
	}
	require.Equal(h, h.clock.Wait(a.Grant.At), a.Wait.Microseconds(), what)
	require.Equal(h, r.N, a.Grant.N)
	if k := len(h.turns); k > 0 {
		require.GreaterOrEqual(h, a.Grant.At, h.turns[k-1].Slot, "%s: first in, first out", what)
	}
	h.held = append(h.held, a.Grant)
	h.turns = append(h.turns, model.Turn{Slot: a.Grant.At, N: a.Grant.N})
	h.tail = max(h.tail, a.Grant.At-h.label)
	h.blurred = h.blurred || distinct(h.turns, min(h.label, a.Grant.At)-h.longest) > moments
}

// moments is how many distinct ones of one window the engine keeps apart.
const moments = 130

// tolerance is how much later than the definition a request may go.
func (h *modelled) tolerance(f *fair, earliest int64, n int) (late int64) {
	switch {
	case h.coarse && h.given: // a row that others began is not taken apart
		return h.longest + h.tail
	case h.coarse: // until others' turns have left, each cell counts whole
		return h.longest
	case !h.blurred:
		return 0
	case h.given: // room within merged cells is not seen
		late = h.tail / 25
	}
	for _, w := range modelsOf(f.windows) {
		late = max(late, w.Free(h.turns, n)+w.Length/32+1-earliest)
	}
	return late
}

// distinct counts the slots after a moment.
func distinct(turns []model.Turn, after int64) (count int) {
	for i := len(turns) - 1; i >= 0 && turns[i].Slot > after; i-- {
		if i+1 == len(turns) || turns[i+1].Slot != turns[i].Slot {
			count++
		}
	}
	return count
}

// A state of eight windows takes so many bytes at most, and flows so many more.
const (
	mostState     = 3900
	mostFlowBytes = 64 * entryBytes
)

func modelsOf(windows []window) (all []model.Window) {
	for _, w := range windows {
		all = append(all, model.Window(w))
	}
	return all
}

// leave gives one back: anyone, the last, one of the last, the next. It frees
// nothing once its slot has passed, unless it is known that nobody has used it.
func (h *modelled) leave(f *fair) {
	last := len(h.held) - 1
	i := []int{h.rng.IntN(last + 1), last, last - h.rng.IntN(min(40, last+1)), 0}[h.rng.IntN(4)]
	g := h.held[i]
	g.Unused = h.rng.IntN(4) == 0
	giveBack(h.T, f, g)
	if h.clock.Ahead(g.At) || g.Unused {
		h.held, h.turns, h.given = slices.Delete(h.held, i, i+1), slices.Delete(h.turns, i, i+1), true
	}
}

// ends requires that no window of a queue with one kind of caller ever held too
// many.
func (h *modelled) ends() {
	if len(h.callers) == 1 {
		require.NoError(h, model.Strict(modelsOf(h.callers[0].windows), h.turns), h.what)
	}
	require.LessOrEqual(h, len(h.state(h.callers[0])), mostState+mostFlowBytes)
}

const totals = 689869781056 // 94⁶: a cell counts permits up to this

// countFrom is the state as it would be if the generation had begun with so
// many permits, long ago.
func countFrom(state string, permits int64) string {
	bytes, head := []byte(state), state[:strings.IndexByte(state, '\n')+1]
	windows := 1 + strings.Count(head, ",")
	ring := len(head) + headerBytes + windowBytes*windows
	add := func(at int) {
		at += len(head)
		n, _ := strconv.ParseInt(strings.TrimSpace(state[at:at+16]), 10, 64)
		copy(bytes[at:], fmt.Sprintf("%16d", n+permits))
	}
	add(28)
	add(174)
	for i := range windows {
		add(headerBytes + windowBytes*i)
	}
	for at := ring; at+cellBytes <= min(len(bytes), ring+ringCells*cellBytes); at += cellBytes {
		if bytes[at] == 0 { // no cell has been there
			continue
		}
		total := int64(0)
		for _, b := range bytes[at+8 : at+14] {
			total = total*94 + int64(b-'!')
		}
		total = (total + permits) % totals
		for i := 13; i >= 8; i-- {
			bytes[at+i], total = byte('!'+total%94), total/94
		}
	}
	return string(bytes)
}

// countsOn lets the queue count from close to a border on. Nobody notices.
func (h *modelled) countsOn(f *fair) {
	borders := []int64{totals - 1, totals, 2 * totals, 94 * 94, 1e10, 1 << 32, 1 << 48}
	from := max(1, borders[h.rng.IntN(len(borders))]-h.rng.Int64N(300*int64(1+f.most/40)))
	require.NoError(h, h.w.rdb.Set(h.Context(), f.key, countFrom(h.state(f), from), redis.KeepTTL).Err())
	for _, f := range h.callers {
		f.memory = memory{}
	}
}
