package fair

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	// defaultGrace is how long a flow keeps its share after its newest turn: as
	// long as its next question may take, on a busy machine too.
	defaultGrace = 500 * time.Millisecond

	// leastLookAhead is a look-ahead that lets several flows have some of it,
	// and leastAhead the time that it lasts at least: longer than questions take,
	// so that the queue does not run dry while they are under way.
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
	longest := int64(0)
	for _, w := range f.held().windows {
		longest = max(longest, int64((permits-1)/w.Permits)*w.Length)
	}
	return microseconds(longest)
}

// lookAhead is twice what may go at one moment, and no less than the two
// bounds.
func (t *terms) lookAhead() int {
	soon := int64(mostPermits)
	for _, w := range t.windows {
		soon = min(soon, (int64(w.Permits)*leastAhead.Microseconds()+w.Length-1)/w.Length)
	}
	return max(leastLookAhead, 2*t.most, int(soon))
}

// scriptOf is the one that takes permits for the requests.
func (f *fair) scriptOf(requests []engine.Request) *lua.Script {
	if requests[0].Flow != nil {
		return f.scripts.share
	}
	return f.scripts.take
}

// shareArgs asks for as many of the requests, all of flows, as one question
// may.
func (f *fair) shareArgs(t *terms, requests []engine.Request) (args []any, asked int) {
	var flows, runs []any
	var last *engine.Flow
	count, need := 0, 0
	for n := 0; asked < len(requests) && n < mostRuns; n++ {
		flow := requests[asked].Flow
		permits, longest, size := run(requests[asked:])
		if flow != last {
			last, need = flow, 0
			count++
			flows = append(flows, flowWord(flow.ID)+f.member, flow.Weight, flow.Ahead, 0)
		}
		need = max(need, permits)
		flows[len(flows)-1] = need
		runs = append(runs, count, permits, longest, size)
		asked += max(size, -size)
	}
	ahead := last.LookAhead
	if ahead == 0 {
		ahead = t.lookAhead()
	}
	args = append(f.args(t, 4+len(flows)+len(runs)), f.grace.Microseconds(), ahead, count)
	return append(append(args, flows...), runs...), asked
}

// flowWord is the same in all programs for the same text.
func flowWord(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return word36(h.Sum64(), flowLetters)
}

func newMember() string { return word36(rand.Uint64(), memberLetters) }

// word36 is so many letters and digits, of the last of n in base 36.
func word36(n uint64, letters int) string {
	text := strings.Repeat("0", letters) + strconv.FormatUint(n, 36)
	return text[len(text)-letters:]
}

// decodeShares: as decodeTriples, with the shares of the flows behind the news.
func decodeShares(o *outcome, reply any, requests []engine.Request) error {
	elements, _ := reply.([]any)
	if len(elements) < 6 || len(elements)%3 != 0 {
		return fmt.Errorf("%d elements", len(elements))
	}
	text, isText := elements[2].(string)
	if !isText {
		return fmt.Errorf("a %T instead of shares", elements[2])
	}
	if err := decodeTriples(o, append(append([]any{}, elements[:2]...), elements[3:]...), requests); err != nil {
		return err
	}
	flow := -1
	shares, err := parseNumbers(text, len(strings.Fields(text)))
	for i := range o.answers {
		if i == 0 || requests[i].Flow != requests[i-1].Flow {
			flow++
		}
		if err != nil || flow >= len(shares) || shares[flow] < 1 {
			return fmt.Errorf("no shares: %q", text)
		}
		o.answers[i].Share = int(shares[flow])
	}
	return nil
}
