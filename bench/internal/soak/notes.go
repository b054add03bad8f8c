package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/engine"
)

// recorder stands between a limiter and its engine and notes what was granted
// and given back.
type recorder struct {
	engine.Engine
	limiter int
	notes   *notes
}

func (r *recorder) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := r.Engine.Take(ctx, requests)
	r.notes.took(r.limiter, requests, answers, err)
	return answers, err
}

func (r *recorder) GiveBack(ctx context.Context, grants []engine.Grant) error {
	r.notes.giving(r.limiter, grants)
	err := r.Engine.GiveBack(ctx, grants)
	r.notes.gave(grants, err)
	return err
}

// notes are what happened under one name.
type notes struct {
	mu       sync.Mutex
	turns    []turn
	batches  int64
	arrivals []arrival
	lateness []measure.Span // from when a call's ctx had ended until the call came back
	counts   map[string]int // by what the report calls them
	outcomes map[string]int // of calls

	cancelledLate int // calls of Cancel that may have found the slot due
	unexpected    []string
}

func (n *notes) took(limiter int, requests []engine.Request, answers []engine.Answer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		for _, r := range requests {
			n.counts[lost] += r.N
		}
	}
	n.batches++
	for _, a := range answers {
		if a.Granted {
			n.turns = append(n.turns, turn{
				limiter: limiter, grant: a.Grant, run: a.Grant.At - a.Wait.Microseconds(),
				batch: n.batches, slot: a.Grant.At, n: a.Grant.N,
			})
		}
	}
}

// giving marks the turns that nobody goes with any more.
func (n *notes) giving(limiter int, grants []engine.Grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range grants {
		g.Unused = false
		held := false
		for i, t := range slices.Backward(n.turns) {
			if held = t.limiter == limiter && t.grant == g && !t.unused; held {
				n.turns[i].unused = true
				break
			}
		}
		if !held {
			n.unexpected = append(n.unexpected,
				fmt.Sprintf("a turn was given back that was not held: %+v", g))
		}
	}
}

func (n *notes) gave(grants []engine.Grant, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range grants {
		if err == nil {
			n.counts[givenBack] += g.N
		} else {
			n.counts[lost] += g.N
		}
	}
}

// arrived notes a caller that goes.
func (n *notes) arrived(limiter, permits int) {
	at := time.Now().UnixMicro()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivals = append(n.arrivals, arrival{limiter, at, permits})
	n.counts[letThrough] += permits
}

// late notes a call that came back late.
func (n *notes) late(by measure.Span) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lateness = append(n.lateness, by)
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
	case errors.Is(err, fairlimit.ErrTooManyQueued):
		return "too many queued", true
	case errors.Is(err, fairlimit.ErrOutcomeUnknown):
		return "outcome unknown", true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "left: ctx ended", true
	case errors.Is(err, fairlimit.ErrUnreachable):
		return "unreachable", true
	case errors.As(err, &reply):
		word, _, _ := strings.Cut(reply.Error(), " ")
		return "Redis: " + word, word == "LOADING"
	default:
		return "other", false
	}
}

// cancelled notes a Cancel. One that came back after the slot may have found it
// due, and left the turn as used.
func (n *notes) cancelled(late bool) {
	if late {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cancelledLate++
	}
}
