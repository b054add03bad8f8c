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

// amounts adds those that the query names: the permits, and those of units.
func (r *request) amounts(amounts fairlimit.Amounts) (fairlimit.Amounts, error) {
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

// take asks a queue, or a flow of it, for what the query names, and counts who
// waits. It returns an object to answer with.
func (s *Server) take(r *request, do func(*fairlimit.Queue, fairlimit.Amounts) (any, error)) (any, error) {
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > s.MostWaiting {
		return nil, fmt.Errorf("%w: %d requests wait", errTooMany, s.MostWaiting)
	}
	amounts, err := r.amounts(fairlimit.Amounts{"": 1})
	if err != nil {
		return nil, err
	}
	weight, err := r.number("weight", 1)
	if err != nil {
		return nil, err
	}
	q, err := s.find(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	limiter := q.Queue
	if r.query.Has("flow") || r.query.Has("weight") {
		if limiter, err = q.Flow(r.query.Get("flow"), weight); err != nil {
			return nil, err
		}
	}
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	object, err := do(limiter, amounts)
	if errors.Is(err, fairlimit.ErrNoQuota) {
		s.drop(q)
		err = errNoQueue
	}
	return object, err
}

// turn answers when the turn has come.
func (s *Server) turn(_ http.ResponseWriter, r *request) (any, error) {
	timeout, err := time.Duration(0), error(nil)
	if r.query.Has("timeout") {
		if timeout, err = r.duration("timeout"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := WithTimeout(r.Context(), timeout)
	defer cancel()
	began := time.Now()
	return s.take(r, func(q *fairlimit.Queue, amounts fairlimit.Amounts) (any, error) {
		turn, err := q.Take(ctx, amounts)
		if err != nil {
			return nil, err
		}
		h := new(held)
		if len(amounts) > 1 {
			h.settle = turn.Settle
		}
		return map[string]any{"turn": s.keep(h), "waited_ms": time.Since(began).Milliseconds()}, nil
	})
}

// reserve answers at once with a turn that comes later.
func (s *Server) reserve(_ http.ResponseWriter, r *request) (any, error) {
	return s.take(r, func(q *fairlimit.Queue, amounts fairlimit.Amounts) (any, error) {
		reservation, err := q.ReserveAmounts(r.Context(), amounts)
		if err != nil {
			return nil, err
		}
		h := &held{reservation: reservation}
		if len(amounts) > 1 {
			h.settle = reservation.Settle
		}
		delay := float64(reservation.Delay().Microseconds()) / 1e3
		return map[string]any{"turn": s.keep(h), "in_ms": delay}, nil
	})
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
	used, err := r.amounts(fairlimit.Amounts{})
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
