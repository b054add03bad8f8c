package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlimit/fairlimit"
)

// mostAmount is that of any quota.
const mostAmount = 1_000_000_000

// number is a parameter that counts something.
func (r *request) number(key string, otherwise int) (int, error) {
	if !r.query.Has(key) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(r.query.Get(key))
	if err != nil || n < 0 || n > mostAmount {
		return 0, misused("%s: %.20q is no number from 0 to %d", key, r.query.Get(key), mostAmount)
	}
	return n, nil
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

// ask reads what a caller wants, and counts it as one that waits. Leave undoes
// that.
func (s *Server) ask(r *request) (a asked, err error) {
	if a.amounts, err = r.amounts(); err != nil {
		return a, err
	}
	if _, given := a.amounts[""]; !given {
		a.amounts[""] = 1
	}
	weight, err := r.number("weight", 1)
	flow, hasFlow := r.query.Get("flow"), r.query.Has("flow")
	switch {
	case err == nil && hasFlow:
		err = checkText("flow", flow)
	case err == nil && r.query.Has("weight"):
		err = misused("weight: of a flow, and there is none")
	}
	if err != nil {
		return a, err
	}
	if s.waiting.Add(1) > int64(s.MostWaiting) {
		s.leave(a)
		if known := s.queues.peek(r.PathValue("name")); known != nil {
			known.history.add(0, errTooMany)
		}
		return a, fmt.Errorf("%w: %d requests wait", errTooMany, s.MostWaiting)
	}
	if a.queue, err = s.queues.find(r.Context(), r.PathValue("name")); err == nil {
		a.queue.waiting.Add(1)
		a.limiter = a.queue.Queue
		if hasFlow {
			a.limiter, err = a.queue.Flow(flow, weight)
		}
	}
	if err != nil {
		s.leave(a)
	}
	return a, err
}

func (s *Server) leave(a asked) {
	s.waiting.Add(-1)
	if a.queue != nil {
		a.queue.waiting.Add(-1)
	}
}

// turn answers when the turn has come.
func (s *Server) turn(w http.ResponseWriter, r *request) (any, error) {
	timeout, err := time.Duration(0), error(nil)
	if r.query.Has("timeout") {
		timeout, err = r.duration("timeout")
	}
	if err != nil {
		return nil, err
	}
	a, err := s.ask(r)
	if err != nil {
		return nil, err
	}
	if s.waiting.Load() > s.crowd {
		return nil, s.waitApart(w, a, timeout)
	}
	return s.wait(r.Context(), a, timeout)
}

// wait is turn for a caller that has been counted.
func (s *Server) wait(ctx context.Context, a asked, timeout time.Duration) (any, error) {
	soon := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	began, name := time.Now(), rand.Text()
	turn, err := a.limiter.Take(soon, a.amounts)
	if err == nil && len(a.amounts) > 1 {
		s.turns.keep(&held{name: name, settle: turn.Settle}, 0)
	}
	s.leave(a)
	if err != nil {
		err = s.noTurn(a.queue, err)
	}
	waited := time.Since(began)
	if err == nil || !gone(ctx) {
		a.queue.history.add(waited, err)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"turn": name, "waited_ms": waited.Milliseconds()}, nil
}

// noTurn forgets a queue without a quota.
func (s *Server) noTurn(q *queue, err error) error {
	switch {
	case errors.Is(err, fairlimit.ErrNoQuota):
		s.queues.drop(q)
		return errNoQueue
	case errors.Is(err, fairlimit.ErrUnknownUnit):
		return misused("there is no such parameter: %v, here permits", err)
	}
	return err
}

// reserve answers at once with a turn that comes later.
func (s *Server) reserve(w http.ResponseWriter, r *request) (any, error) {
	a, err := s.ask(r)
	if err != nil {
		return nil, err
	}
	reservation, err := a.limiter.ReserveAmounts(r.Context(), a.amounts)
	s.leave(a)
	if err != nil {
		return nil, s.noTurn(a.queue, err)
	}
	delay := reservation.Delay()
	h := &held{name: rand.Text(), reservation: reservation}
	if len(a.amounts) > 1 {
		h.settle = reservation.Settle
	}
	s.turns.keep(h, delay)
	s.answer(r.Context(), w, map[string]any{"turn": h.name, "in_ms": float64(delay.Microseconds()) / 1e3}, nil)
	err = http.NewResponseController(w).Flush()
	if err != nil || r.Context().Err() != nil { // nobody knows of it
		s.turns.forget(h.name)
		_ = reservation.Cancel(context.WithoutCancel(r.Context()))
	}
	return nil, nil
}

func (s *Server) giveBack(_ http.ResponseWriter, r *request) (any, error) {
	h, err := s.turns.find(r.PathValue("turn"))
	switch {
	case err != nil:
		return nil, err
	case h.reservation == nil:
		return nil, errNoTurn
	case h.reservation.Delay() <= 0:
		return map[string]any{"given_back": false}, nil
	}
	err = h.reservation.Cancel(context.WithoutCancel(r.Context()))
	if err == nil || errors.Is(err, fairlimit.ErrOutcomeUnknown) {
		s.turns.forget(h.name)
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
	h, err := s.turns.find(r.PathValue("turn"))
	if err == nil && h.settle == nil {
		err = errNoTurn
	}
	if err != nil {
		return nil, err
	}
	err = h.settle(context.WithoutCancel(r.Context()), used)
	over := errors.Is(err, fairlimit.ErrOutcomeUnknown) || errors.Is(err, fairlimit.ErrReservationOver)
	if err == nil || over {
		s.turns.forget(h.name)
	}
	return done, err
}
