package soak

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

// notes are what happened under one name.
type notes struct {
	turns [len(ways)]engines.Notes // of each limiter

	mu       sync.Mutex
	went     []measure.Call // a limiter is a client; times are of the machine's wall clock, as Redis's are
	lateness []measure.Span // from when a call's ctx had ended until the call came back
	counts   map[string]int // by what the report calls them
	outcomes map[string]int // of calls

	// Calls of Cancel that came back after the slot. They may have found it due,
	// and left the turn as used.
	cancelledLate int
	disordered    int // answers whose turns are not in order
	unexpected    []string
}

func newNotes() *notes {
	n := &notes{counts: map[string]int{}, outcomes: map[string]int{}}
	for limiter := range n.turns {
		n.turns[limiter].Now = measure.Now
	}
	return n
}

// recorder stands between a limiter and its engine and notes what was lost and
// given back.
type recorder struct {
	engine.Engine
	notes *notes
}

func (r recorder) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := r.Engine.Take(ctx, requests)
	r.notes.mu.Lock()
	defer r.notes.mu.Unlock()
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		for _, request := range requests {
			r.notes.counts[lost] += request.N
		}
	}
	granted := slices.DeleteFunc(slices.Clone(answers), func(a engine.Answer) bool { return !a.Granted })
	if !slices.IsSortedFunc(granted, func(a, b engine.Answer) int { return cmp.Compare(a.Grant.At, b.Grant.At) }) {
		r.notes.disordered++
	}
	return answers, err
}

func (r recorder) GiveBack(ctx context.Context, grants []engine.Grant) error {
	err := r.Engine.GiveBack(ctx, grants)
	what := givenBack
	if err != nil {
		what = lost
	}
	r.notes.mu.Lock()
	defer r.notes.mu.Unlock()
	for _, g := range grants {
		r.notes.counts[what] += g.N
	}
	return err
}

// arrived notes a caller that goes.
func (n *notes) arrived(limiter, permits int) {
	at := time.Duration(time.Now().UnixNano())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.went = append(n.went, measure.Call{Client: limiter, Permits: permits, Ended: at, Outcome: measure.Granted})
	n.counts[letThrough] += permits
}

// ended notes how a call ended.
func (n *notes) ended(err error) {
	kind, expected := kindOf(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[calls]++
	n.outcomes[kind]++
	if !expected && len(n.unexpected) < 10 {
		n.unexpected = append(n.unexpected, err.Error())
	}
}

// note changes the notes.
func (n *notes) note(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// kindOf names how a call ended, and says whether the faults of a soak explain
// it.
func kindOf(err error) (kind string, expected bool) {
	var refused *fairlimit.RefusedError
	var reply redis.Error
	switch {
	case err == nil:
		return "let through", true
	case errors.As(err, &refused):
		return "refused", true
	}
	for _, k := range []struct {
		err  error
		kind string
	}{
		{fairlimit.ErrTooManyQueued, "too many queued"},
		{fairlimit.ErrOutcomeUnknown, "outcome unknown"},
		{context.DeadlineExceeded, "left: ctx ended"},
		{context.Canceled, "left: ctx ended"},
		{fairlimit.ErrUnreachable, "unreachable"},
	} {
		if errors.Is(err, k.err) {
			return k.kind, true
		}
	}
	if errors.As(err, &reply) {
		word, _, _ := strings.Cut(reply.Error(), " ")
		return "Redis: " + word, word == "LOADING"
	}
	return "other", false
}
