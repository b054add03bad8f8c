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
	tally    Tally
}

type grantOf struct {
	limiter, n int
	id         string
	at         int64
}

// Tally counts.
type Tally struct {
	Calls         int            `json:"calls"`
	Permits       int            `json:"permits"` // let through
	Outcomes      map[string]int `json:"outcomes"`
	Open          int            `json:"permits_left_open"`         // at most lost: their answer was
	Returned      int            `json:"permits_given_back"`        //
	ReturnsOpen   int            `json:"permits_given_back_or_not"` // at most lost: the answer to giving them back was
	ReturnsFailed int            `json:"permits_not_given_back"`    // lost: Redis was not there

	cancelledLate int // calls of Cancel that may have found the slot due
	unexpected    []string
}

func (t *Tally) add(more Tally) {
	t.Calls += more.Calls
	t.Permits += more.Permits
	t.Open += more.Open
	t.Returned += more.Returned
	t.ReturnsOpen += more.ReturnsOpen
	t.ReturnsFailed += more.ReturnsFailed
	for kind, count := range more.Outcomes {
		t.Outcomes[kind] += count
	}
}

func newNotes() *notes {
	return &notes{ahead: map[grantOf][]int{}, tally: Tally{Outcomes: map[string]int{}}}
}

func (n *notes) took(limiter int, requests []engine.Request, answers []engine.Answer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		for _, r := range requests {
			n.tally.Open += r.N
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
			n.tally.Returned += g.N
		case errors.Is(err, engine.ErrOutcomeUnknown):
			n.tally.ReturnsOpen += g.N
		default:
			n.tally.ReturnsFailed += g.N
		}
	}
}

// arrived notes a caller that goes.
func (n *notes) arrived(limiter, permits int) {
	at := time.Now().UnixMicro()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivals = append(n.arrivals, arrival{limiter, at, permits})
	n.tally.Permits += permits
}

// ended notes how a call ended.
func (n *notes) ended(err error) {
	kind, expected := kindOf(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tally.Calls++
	n.tally.Outcomes[kind]++
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
