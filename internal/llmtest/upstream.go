// Package llmtest stands in for providers of language models, which count
// strictly. It was written from the pages that package llmlimit names.
package llmtest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlimit/fairlimit"
)

// Upstream is one model of a provider. A request says what it wants in its text:
// see [Ask].
type Upstream struct {
	rules   rules
	budgets map[string]fairlimit.Quota

	mu      sync.Mutex
	charges map[string][]*charge
	calls   []Call
	refused int
	used    map[string]int
	worst   map[string]int
}

// Call is a request that was let through.
type Call struct {
	Number int // as in [Ask]
	At     time.Time
}

// charge is what counts in the windows that it falls into.
type charge struct {
	at time.Time
	n  int
}

// Ask is the text of a request: the nth, for an answer of so many tokens, written
// in so long.
func Ask(n, tokens int, d time.Duration) string {
	return fmt.Sprintf("Question %d: write %d tokens in %v", n, tokens, d)
}

var asked = regexp.MustCompile(`Question (\d+): write (\d+) tokens in ([0-9a-zµ.]+)`)

// request is what an upstream sees of a request.
type request struct {
	number     int
	characters int
	most       int // the most that may be written
	stream     bool
	usage      bool // a stream ends with what was used

	output int
	took   time.Duration
}

func (r request) input() int { return (r.characters + 4) / 5 } // the estimate of 4 characters is too high

// rules are what a provider charges, in its units.
type rules struct {
	start  func(request) map[string]int // when a request comes
	end    func(request) map[string]int // what start becomes when it ends, nil if it stays
	writes string                       // the unit that counts what is written as it is written
	answer func(http.ResponseWriter, request, func(part, parts int))
}

// build makes a model with a budget for each unit, of which "" is requests.
func build(r rules, budgets map[string]fairlimit.Quota) *Upstream {
	return &Upstream{
		rules: r, budgets: budgets,
		charges: map[string][]*charge{}, used: map[string]int{}, worst: map[string]int{},
	}
}

// Calls are the requests that were let through, in the order in which they came.
func (u *Upstream) Calls() []Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Call(nil), u.calls...)
}

// Refused is how many requests got a 429.
func (u *Upstream) Refused() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused
}

// Used is how much of a unit all calls used, and the most that a window held.
func (u *Upstream) Used(unit string) (total, worst int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used[unit], u.worst[unit]
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r := read(body)
	charges, ok := u.admit(r)
	if !ok {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`)
		return
	}
	part := func(part, parts int) {
		select {
		case <-time.After(r.took / time.Duration(parts)):
		case <-req.Context().Done():
			panic(http.ErrAbortHandler) // nobody reads any more, and no more is written
		}
		if u.rules.writes != "" {
			u.charge(u.rules.writes, r.output*part/parts-r.output*(part-1)/parts)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	u.rules.answer(w, r, part)
	u.settle(r, charges)
}

// admit charges a request for which there is room.
func (u *Upstream) admit(r request) (map[string]*charge, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	wants := u.rules.start(r)
	for unit, n := range wants {
		if u.sum(unit, now)+n > u.budgets[unit].Permits {
			u.refused++
			return nil, false
		}
	}
	if unit := u.rules.writes; unit != "" && u.sum(unit, now) >= u.budgets[unit].Permits {
		u.refused++
		return nil, false
	}
	charges := map[string]*charge{}
	for unit, n := range wants {
		charges[unit] = u.add(unit, n, now)
	}
	u.calls = append(u.calls, Call{r.number, now})
	return charges, true
}

// charge counts what is written.
func (u *Upstream) charge(unit string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[unit] += n
	u.add(unit, n, time.Now())
}

// settle counts what a request used in the end.
func (u *Upstream) settle(r request, charges map[string]*charge) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var end map[string]int
	if u.rules.end != nil {
		end = u.rules.end(r)
	}
	for unit, c := range charges {
		if n, ok := end[unit]; ok {
			c.n = n
		}
		u.used[unit] += c.n
	}
}

func (u *Upstream) add(unit string, n int, now time.Time) *charge {
	c := &charge{now, n}
	u.charges[unit] = append(u.charges[unit], c)
	u.worst[unit] = max(u.worst[unit], u.sum(unit, now))
	return c
}

// sum is what the window that ends now holds.
func (u *Upstream) sum(unit string, now time.Time) (sum int) {
	for _, c := range u.charges[unit] {
		if now.Sub(c.at) < u.budgets[unit].Per {
			sum += c.n
		}
	}
	return sum
}

var (
	mostWritten = regexp.MustCompile(`"(?:max_tokens|max_completion_tokens|max_output_tokens)":\s*(\d+)`)
	streams     = regexp.MustCompile(`"stream":\s*true`)
	asksUsage   = regexp.MustCompile(`"include_usage":\s*true`)
)

func read(body []byte) request {
	r := request{
		characters: utf8.RuneCount(body),
		stream:     streams.Match(body),
		usage:      asksUsage.Match(body),
	}
	if m := mostWritten.FindSubmatch(body); m != nil {
		r.most, _ = strconv.Atoi(string(m[1]))
	}
	if m := asked.FindSubmatch(body); m != nil {
		r.number, _ = strconv.Atoi(string(m[1]))
		r.output, _ = strconv.Atoi(string(m[2]))
		r.took, _ = time.ParseDuration(string(m[3]))
	}
	if r.most > 0 {
		r.output = min(r.output, r.most)
	}
	return r
}
