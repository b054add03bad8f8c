package fair

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	// defaultGrace is how long a flow keeps its share after its newest turn: as
	// long as its next question may take, on a busy machine too.
	defaultGrace = 500 * time.Millisecond

	// leastLookAhead is a look-ahead that lets several flows have some of it,
	// and leastAhead the time that it lasts at least.
	leastLookAhead = 8
	leastAhead     = 100 * time.Millisecond

	// An entry of the state is named by so many letters of its flow, and of the
	// limiter that asks.
	flowLetters   = 5
	memberLetters = 3
)

var _ engine.Sharer = (*fair)(nil)

// AtBest is how long the quotas let so many permits take at least.
func (f *fair) AtBest(permits int) time.Duration {
	return atBest(f.held().windows, permits)
}

func atBest(windows []window, permits int) time.Duration {
	longest := int64(0)
	for _, w := range windows {
		longest = max(longest, int64((permits-1)/w.Permits)*w.Length)
	}
	return microseconds(longest)
}

// lookAhead is how many permits all flows hold ahead: at most twice what may go
// at one moment, at least what may go while two questions are under way, so
// that the queue does not run dry meanwhile.
func (t *quotaSet) lookAhead(question time.Duration) (most, least int) {
	soon, lasts := float64(mostPermits), max(leastAhead, 2*question)
	for _, w := range t.windows {
		soon = min(soon, math.Ceil(float64(w.Permits)*float64(lasts.Microseconds())/float64(w.Length)))
	}
	return max(leastLookAhead, 2*t.most, int(soon)), int(soon)
}

// latency is how long questions took of late, at most.
type latency struct{ micros atomic.Int64 }

// learn forgets a long question bit by bit. Of two at once it may miss one.
func (l *latency) learn(took time.Duration) {
	before := l.micros.Load()
	l.micros.Store(max(took.Microseconds(), before-before/16-1))
}

func (l *latency) longest() time.Duration { return microseconds(l.micros.Load()) }

// scriptOf is the one that takes permits for the requests.
func (f *fair) scriptOf(t *quotaSet, requests []engine.Request) *lua.Script {
	ofFlows, ofUnits := requests[0].Flow != nil, len(t.units) > 0
	switch {
	case ofFlows && ofUnits:
		return f.scripts.amountsShare
	case ofFlows:
		return f.scripts.share
	case ofUnits:
		return f.scripts.amounts
	}
	return f.scripts.take
}

// flowArgs is how many arguments there are for each flow: see lua/fair/flows.lua.
const flowArgs = 8

// shareArgs asks for as many of the requests, all of flows, as one question
// may. It returns the keys of their logs as well.
func (f *fair) shareArgs(t *quotaSet, requests []engine.Request) (args []any, logs []string, asked int) {
	var flows, runs []any
	var last *engine.Flow
	count, need, wants := 0, 0, 0
	most, least := t.lookAhead(f.latency.longest())
	if set := requests[0].Flow.LookAhead; set > 0 {
		most, least = set, set
	}
	for n := 0; asked < len(requests) && n < mostRuns; n++ {
		flow := requests[asked].Flow
		if flow != last {
			last, need, wants = flow, 0, flow.Ahead
			count++
			word := flowWord(flow.ID)
			under := ""
			if c, _ := flow.Ceiling.(*ceiling); c != nil {
				under = c.words
			}
			at, granted := f.places.of(flow.ID, &f.memory)
			holds := flow.Ahead + f.debts.ahead(flow, &f.memory)
			flows = append(flows, word+f.member, flow.Weight, 0, 0, holds, at, under, granted)
			logs = append(logs, f.logKey(flow.ID))
		}
		var size int
		runs, size = t.appendRun(runs, count, requests[asked:])
		cost := requests[asked].InShare()
		need, wants = max(need, cost), wants+cost*size
		asks := flows[len(flows)-flowArgs:]
		asks[2], asks[3] = need, min(most, max(wants, flow.Wanted))
		asked += size
	}
	args = append(f.argsOfAll(t, 4+len(flows)+len(runs)), defaultGrace.Microseconds(), most, least, count)
	return append(append(args, flows...), runs...), logs, asked
}

// flowWord is the same in all programs for the same text.
func flowWord(id string) string {
	return word36(hash(id), flowLetters)
}

// hash is the same in all programs.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// word36 is so many letters and digits, of the last of n in base 36.
func word36(n uint64, letters int) string {
	text := strings.Repeat("0", letters) + strconv.FormatUint(n, 36)
	return text[len(text)-letters:]
}

// share reads the shares and the places of the flows.
func (o *outcome) share(words any, requests []engine.Request) error {
	text, isText := words.(string)
	if !isText {
		return fmt.Errorf("a %T instead of shares", words)
	}
	told, err := parseShares(text)
	if err != nil {
		return err
	}
	for i := range o.answers {
		a, flow, n := &o.answers[i], requests[i].Flow, len(o.places)
		if i == 0 || flow != requests[i-1].Flow {
			if n == len(told) {
				return fmt.Errorf("shares of %d flows: %q", n, text)
			}
			o.places = append(o.places, told[n].of(flow))
			n++
		}
		p := &o.places[n-1]
		a.Share = p.share
		if p.ceiling != nil && o.watermark.text != "" { // what was lost may have been counted again
			p.queue = o.watermark.generation()
		}
		if a.Granted && p.ceiling != nil && requests[i].N > 0 {
			a.Grant.Ceiling = true
			p.counts = max(p.counts, a.Wait+microseconds(p.ceiling[0].Length))
			p.end = max(p.end, a.Grant.At+p.ceiling[0].Length)
		}
	}
	return nil
}

// place is what a reply says of one flow: what it may hold ahead; where its entry
// is, see lua/fair/flows.lua; up to how many permits its ceiling counted, see
// lua/fair/ceiling.lua, in which generation, for how long, and up to which slot.
type place struct {
	flow    string
	share   int
	at      int64
	total   int64
	ceiling []window
	queue   string
	counts  time.Duration
	end     int64
}

// shareWords is how many words a reply has for each flow: see lua/fair/share.lua.
const shareWords = 4

func parseShares(text string) (all []place, err error) {
	for words := strings.Fields(text); len(words) >= shareWords; words = words[shareWords:] {
		numbers, err := parseNumbers(strings.Join(words[:3], " "), 3)
		if err != nil || numbers[0] < 1 {
			return nil, fmt.Errorf("no shares: %q", text)
		}
		p := place{share: int(numbers[0]), at: numbers[1], total: numbers[2]}
		if words[3] != "-" {
			if p.ceiling, err = parseWindows(words[3]); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// of is the place of a flow, which learns its ceiling.
func (p place) of(flow *engine.Flow) place {
	if c, _ := flow.Ceiling.(*ceiling); c != nil && p.ceiling != nil {
		c.held.Store(&p.ceiling)
	}
	p.flow = flow.ID
	return p
}

// places are those that a limiter was told. One that is wrong costs the script
// a look at all entries.
type places struct {
	mu       sync.Mutex
	known    map[string]knownPlace
	counting int // of those known when some were dropped last
}

type knownPlace struct {
	at    int64
	queue string // the generation that counted total, "" if none is known
	total int64
	asked time.Time // when the question went
	until time.Time
	end   int64 // a slot of its queue
}

// before tells whether what is known is newer than this place: it was told by an
// answer that overtook its own.
func (p *place) before(k *knownPlace) bool {
	return p.queue == k.queue && p.total < k.total
}

// counts tells whether what was granted may still count: a pause puts it off.
func (k *knownPlace) counts(m *memory) bool {
	return k.queue != "" && !m.wasReset(k.queue, k.asked) &&
		(time.Now().Before(k.until) || m.isAhead(k.queue, k.end))
}

func (p *places) of(flow string, m *memory) (at int64, granted string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[flow]
	if known.counts(m) {
		granted = fmt.Sprintf("%s %d", known.queue, known.total)
	}
	return known.at, granted
}

// mostPlaces is how many flows a limiter with many remembers at least. What their
// ceilings counted is remembered as long as it counts.
const mostPlaces = 1024

func (p *places) learn(told []place, r reply, m *memory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) > max(mostPlaces, 2*p.counting) {
		maps.DeleteFunc(p.known, func(_ string, k knownPlace) bool { return !k.counts(m) })
		p.counting = len(p.known)
	}
	for _, t := range told {
		known := p.known[t.flow]
		if !known.counts(m) {
			known = knownPlace{}
		}
		known.at = t.at
		if t.queue != "" && !m.wasReset(t.queue, r.sent) {
			if !t.before(&known) {
				known.queue, known.total, known.asked = t.queue, t.total, r.sent
			}
			if until := r.arrived.Add(t.counts); until.After(known.until) {
				known.until = until
			}
			known.end = max(known.end, t.end)
		}
		p.known[t.flow] = known
	}
}
