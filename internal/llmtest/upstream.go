// Package llmtest stands in for providers of language models, which count
// strictly. It was written from the pages that package llmlimit names.
package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlimit/fairlimit"
)

// Upstream is one model of a provider.
type Upstream struct {
	rules   rules
	budgets map[string]fairlimit.Quota

	mu      sync.Mutex
	charges map[string][]*charge
	calls   []Call
	refused int
	worst   map[string]int
}

// Call is a request that was let through.
type Call struct {
	Number int // of the request
	At     time.Time
}

// charge is what counts in the windows that it falls into.
type charge struct {
	at time.Time
	n  int
}

// Request is what an upstream reads of the body of a request. Real ones do not say
// what they will get.
type Request struct {
	Number int           `json:"number"`
	Output int           `json:"output"` // tokens to write
	Took   time.Duration `json:"took"`   // to write them

	Most    int  `json:"max_tokens"`
	Stream  bool `json:"stream"`
	Options struct {
		Usage bool `json:"include_usage"` // a stream ends with what was used
	} `json:"stream_options"`

	characters int
}

func (r Request) input() int { return (r.characters + 4) / 5 } // the estimate of 4 characters is too high

// rules are what a provider charges, in its units.
type rules struct {
	start  func(Request) map[string]int // when a request comes
	end    func(Request) map[string]int // what start becomes when it ends, nil if it stays
	writes string                       // the unit that counts what is written as it is written
	answer func(http.ResponseWriter, Request, func(part int))
}

// build makes a model with a budget for each unit, of which "" is requests.
func build(r rules, budgets map[string]fairlimit.Quota) *Upstream {
	return &Upstream{rules: r, budgets: budgets, charges: map[string][]*charge{}, worst: map[string]int{}}
}

// Calls are the requests that were let through, in the order in which they came,
// and how many were not.
func (u *Upstream) Calls() (through []Call, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls), u.refused
}

// Used is how much of a unit all calls used, and the most that a window held.
func (u *Upstream) Used(unit string) (total, worst int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sum(unit, time.Time{}), u.worst[unit]
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var r Request
	body, _ := io.ReadAll(req.Body)
	if err := json.Unmarshal(body, &r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.characters, r.Output = utf8.RuneCount(body), min(r.Output, r.Most)
	charges, ok := u.admit(r)
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"type":"error","error":{"type":"rate_limit_error"}}`, http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	u.rules.answer(w, r, func(part int) {
		select {
		case <-time.After(r.Took / parts):
		case <-req.Context().Done():
			panic(http.ErrAbortHandler) // nobody reads any more, and no more is written
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.rules.writes != "" {
			u.charge(u.rules.writes, r.written(part))
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rules.end != nil {
		for unit, n := range u.rules.end(r) {
			charges[unit].n = n
		}
	}
}

// admit charges a request for which there is room.
func (u *Upstream) admit(r Request) (charges map[string]*charge, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	wants := u.rules.start(r)
	if u.rules.writes != "" {
		wants[u.rules.writes] = 1 // some room is enough
	}
	for unit, n := range wants {
		if u.sum(unit, time.Now().Add(-u.budgets[unit].Per))+n > u.budgets[unit].Permits {
			u.refused++
			return nil, false
		}
	}
	delete(wants, u.rules.writes)
	charges = map[string]*charge{}
	for unit, n := range wants {
		charges[unit] = u.charge(unit, n)
	}
	u.calls = append(u.calls, Call{r.Number, time.Now()})
	return charges, true
}

// charge, under mu, counts so much of a unit.
func (u *Upstream) charge(unit string, n int) *charge {
	c := &charge{time.Now(), n}
	u.charges[unit] = append(u.charges[unit], c)
	u.worst[unit] = max(u.worst[unit], u.sum(unit, c.at.Add(-u.budgets[unit].Per)))
	return c
}

// sum, under mu, is what was charged after then.
func (u *Upstream) sum(unit string, then time.Time) (sum int) {
	for _, c := range u.charges[unit] {
		if c.at.After(then) {
			sum += c.n
		}
	}
	return sum
}
