package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
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
	ahead    map[grantOf][]int // which turns of a limiter nobody has given back yet
	batches  int64
	arrivals []arrival
	tally    tally
}

type grantOf struct {
	limiter, n int
	id         string
	at         int64
}

// tally counts.
type tally struct {
	calls, permits        int
	open                  int // permits whose grant was left open by a lost answer
	returned, returnsOpen int // permits
	returnsFailed         int
	cancelledLate         int // calls of Cancel that may have found the slot due
	outcomes              map[string]int
	unexpected            []string
}

func newNotes() *notes {
	return &notes{ahead: map[grantOf][]int{}, tally: tally{outcomes: map[string]int{}}}
}

func (n *notes) took(limiter int, requests []engine.Request, answers []engine.Answer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		for _, r := range requests {
			n.tally.open += r.N
		}
	}
	n.batches++
	for i, a := range answers {
		if !a.Granted {
			continue
		}
		g := a.Grant
		n.turns = append(n.turns, turn{
			limiter: limiter, run: g.At - a.Wait.Microseconds(), batch: n.batches, place: i, slot: g.At, n: g.N,
		})
		key := grantOf{limiter, g.N, g.ID, g.At}
		n.ahead[key] = append(n.ahead[key], len(n.turns)-1)
	}
}

// giving marks the turns that nobody goes with any more.
func (n *notes) giving(limiter int, grants []engine.Grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range grants {
		key := grantOf{limiter, g.N, g.ID, g.At}
		which := n.ahead[key]
		if len(which) == 0 {
			n.tally.unexpected = append(n.tally.unexpected,
				fmt.Sprintf("a turn was given back that was not held: %+v", g))
			continue
		}
		n.turns[which[0]].unused = true
		if n.ahead[key] = which[1:]; len(which) == 1 {
			delete(n.ahead, key)
		}
	}
}

func (n *notes) gave(grants []engine.Grant, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range grants {
		switch {
		case err == nil:
			n.tally.returned += g.N
		case errors.Is(err, engine.ErrOutcomeUnknown):
			n.tally.returnsOpen += g.N
		default:
			n.tally.returnsFailed += g.N
		}
	}
}

// arrived notes a caller that goes.
func (n *notes) arrived(limiter, permits int) {
	at := time.Now().UnixMicro()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivals = append(n.arrivals, arrival{limiter, at, permits})
	n.tally.permits += permits
}

// ended notes how a call ended.
func (n *notes) ended(err error) {
	kind, expected := kindOf(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tally.calls++
	n.tally.outcomes[kind]++
	if !expected && len(n.tally.unexpected) < 10 {
		n.tally.unexpected = append(n.tally.unexpected, err.Error())
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
		n.tally.cancelledLate++
	}
}
