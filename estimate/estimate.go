// Package estimate guesses what a call will cost from what calls like it cost
// before: a quantile of the last 256 of them.
//
//	estimates := estimate.New(0.75)
//	turn, err := queue.Take(ctx, fairlimit.Amounts{"tokens": estimates.Guess(model, maxTokens)})
//	...
//	estimates.Saw(model, used)
//	err = turn.Settle(ctx, fairlimit.Amounts{"tokens": used})
//
// The guess decides how much of a quota is used. Turns that are held keep their
// slots, so what a high guess reserves too much is given back too late for those
// who wait already. A low guess becomes a debt: a window then holds up to what
// the guesses of its turns were short of. With 0.75, three calls in four cost at
// most what was guessed.
package estimate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
)

const (
	usual  = 0.75
	newest = 256  // how many observations of a key count
	mostOf = 1024 // how many keys are kept
)

// Estimator guesses by key, such as the name of a model. Any number of
// goroutines may use it. It keeps the 1024 keys that were used last, in at most
// 4 KB each. The zero value is New(0).
type Estimator struct {
	quantile float64

	mu   sync.Mutex
	keys map[string]*history
	uses int // of all keys
}

// history is the last observations of a key, at least one.
type history struct {
	used    []int
	lastUse int
}

// New makes an Estimator for a quantile above 0 and up to 1, which is the
// largest. Any other number, such as 0, means 0.75.
func New(quantile float64) *Estimator { return &Estimator{quantile: quantile} }

// Guess returns the quantile of the last 256 observations of the key, but at
// least 1 and at most most, where that is more than 1. Of a key without
// observations nothing is known: Guess returns most, which is the safe side.
func (e *Estimator) Guess(key string, most int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	guess := most
	if h := e.find(key); h != nil {
		sorted := slices.Sorted(slices.Values(h.used))
		guess = min(sorted[e.rank(len(sorted))], most)
	}
	return max(1, guess)
}

// Saw tells what a call used. A negative number counts as 0.
func (e *Estimator) Saw(key string, used int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.find(key)
	if h == nil {
		h = e.add(key)
	}
	h.used = append(h.used[max(0, len(h.used)+1-newest):], max(0, used))
}

// find returns the history of a key, which is now the one used last, or nil.
func (e *Estimator) find(key string) *history {
	h := e.keys[key]
	if h != nil {
		e.uses++
		h.lastUse = e.uses
	}
	return h
}

// add makes room for a key.
func (e *Estimator) add(key string) *history {
	if e.keys == nil {
		e.keys = map[string]*history{}
	}
	if len(e.keys) >= mostOf {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(e.keys)), func(a, b string) int {
			return cmp.Compare(e.keys[a].lastUse, e.keys[b].lastUse)
		})
		delete(e.keys, oldest)
	}
	e.keys[key] = &history{}
	return e.find(key)
}

// rank is which of n sorted observations is the quantile: the smallest that so
// large a part of them does not exceed.
func (e *Estimator) rank(n int) int {
	quantile := e.quantile
	if !(quantile > 0 && quantile <= 1) { // also if it is no number
		quantile = usual
	}
	return max(0, int(math.Ceil(quantile*float64(n)))-1)
}
