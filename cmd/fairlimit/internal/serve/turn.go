package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fairlimit/fairlimit"
)

// mostTurns are remembered. Beyond them the oldest is forgotten: nobody is refused
// because others do not settle, or reserve without end.
const mostTurns = 10_000

var errNoTurn = errors.New("no such turn to settle or give back: it named no unit, was settled or given back, " +
	"or is forgotten")

// held is a turn that was granted: one that named a unit, or a reservation.
type held struct {
	reservation *fairlimit.Reservation                                  // nil if it has come
	settle      func(ctx context.Context, used fairlimit.Amounts) error // nil if it named no unit
}

// keep remembers a turn, and returns its name, which cannot be guessed.
func (s *Server) keep(h *held) string {
	name := rand.Text()
	if h.reservation != nil || h.settle != nil {
		s.turns.Add(name, h)
	}
	return name
}

// amounts are those that the query names: the permits, and those of units.
func (r *request) amounts() (fairlimit.Amounts, error) {
	amounts := fairlimit.Amounts{}
	for key := range r.query {
		unit := key
		if key == "permits" {
			unit = ""
		} else if has(notUnits, key) {
			continue
		}
		n, err := r.number(key, 0)
		if err != nil {
			return nil, err
		}
		amounts[unit] = n
	}
	return amounts, nil
}

// asked is what a caller wants.
type asked struct {
	queue   *queue
	limiter *fairlimit.Queue  // of the flow, if there is one
	amounts fairlimit.Amounts // with the permits
}

// asked reads what a caller wants.
func (s *Server) asked(r *request) (a asked, err error) {
	if a.amounts, err = r.amounts(); err != nil {
		return a, err
	}
	if _, given := a.amounts[""]; !given {
		a.amounts[""] = 1
	}
	weight, err := r.number("weight", 1)
	if err != nil {
		return a, err
	}
	if a.queue, err = s.queues.find(r.Context(), r.PathValue("name")); err != nil {
		return a, err
	}
	a.limiter = a.queue.Queue
	if r.query.Has("flow") || r.query.Has("weight") {
		a.limiter, err = a.queue.Flow(r.query.Get("flow"), weight)
	}
	return a, err
}

// waits does what waits for Redis or a turn, and counts who waits.
func (s *Server) waits(r *request, do func(asked) error) error {
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > s.MostWaiting {
		return fmt.Errorf("%w: %d requests wait", errTooMany, s.MostWaiting)
	}
	a, err := s.asked(r)
	if err != nil {
		return err
	}
	a.queue.waiting.Add(1)
	defer a.queue.waiting.Add(-1)
	err = do(a)
	switch {
	case errors.Is(err, fairlimit.ErrNoQuota):
		s.queues.drop(a.queue)
		return errNoQueue
	case errors.Is(err, fairlimit.ErrUnknownUnit):
		return misused("there is no such parameter: %v, here permits", err)
	}
	return err
}

// turn answers when the turn has come.
func (s *Server) turn(_ http.ResponseWriter, r *request) (object any, err error) {
	timeout := time.Duration(0)
	if r.query.Has("timeout") {
		if timeout, err = r.duration("timeout"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := WithTimeout(r.Context(), timeout)
	defer cancel()
	began := time.Now()
	err = s.waits(r, func(a asked) error {
		turn, err := a.limiter.Take(ctx, a.amounts)
		if err != nil {
			return err
		}
		h := new(held)
		if len(a.amounts) > 1 {
			h.settle = turn.Settle
		}
		object = map[string]any{"turn": s.keep(h), "waited_ms": time.Since(began).Milliseconds()}
		return nil
	})
	return object, err
}

// reserve answers at once with a turn that comes later.
func (s *Server) reserve(_ http.ResponseWriter, r *request) (object any, err error) {
	err = s.waits(r, func(a asked) error {
		reservation, err := a.limiter.ReserveAmounts(r.Context(), a.amounts)
		if err != nil {
			return err
		}
		h := &held{reservation: reservation}
		if len(a.amounts) > 1 {
			h.settle = reservation.Settle
		}
		delay := float64(reservation.Delay().Microseconds()) / 1e3
		object = map[string]any{"turn": s.keep(h), "in_ms": delay}
		return nil
	})
	return object, err
}

func (s *Server) giveBack(_ http.ResponseWriter, r *request) (any, error) {
	name := r.PathValue("turn")
	h, found := s.turns.Peek(name)
	switch {
	case !found || h.reservation == nil:
		return nil, errNoTurn
	case h.reservation.Delay() <= 0:
		return map[string]any{"given_back": false}, nil
	}
	err := h.reservation.Cancel(context.WithoutCancel(r.Context()))
	if err == nil || errors.Is(err, fairlimit.ErrOutcomeUnknown) {
		s.turns.Remove(name)
	}
	return map[string]any{"given_back": true}, err
}

// settle says what a turn used.
func (s *Server) settle(_ http.ResponseWriter, r *request) (any, error) {
	used, err := r.amounts()
	if err != nil {
		return nil, err
	}
	if len(used) == 0 {
		return nil, misused("want what was used of a unit, such as tokens=873")
	}
	name := r.PathValue("turn")
	h, found := s.turns.Peek(name)
	if !found || h.settle == nil {
		return nil, errNoTurn
	}
	err = h.settle(context.WithoutCancel(r.Context()), used)
	if err == nil || errors.Is(err, fairlimit.ErrOutcomeUnknown) || errors.Is(err, fairlimit.ErrReservationOver) {
		s.turns.Remove(name)
	}
	return done, err
}
