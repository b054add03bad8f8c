package serve

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	mostTurns = 10_000

	// remembered is how long a reservation can be given back after its slot.
	remembered = 10 * time.Second

	// settleable is how long a turn can be settled after its slot. What is later
	// than that counts as it was reserved.
	settleable = 15 * time.Minute
)

var (
	errNoReservation = errors.New("no such turn to give back: it was never reserved, is given back or has passed")
	errNoTurn        = errors.New("no such turn to settle: it named no unit, is settled or given back, or is forgotten")
	errTooLate       = fmt.Errorf("this turn can be settled no more: its slot was more than %v ago", settleable)
)

// turns are those that callers hold, by the name that they were told, which
// cannot be guessed. A turn that is asked for is there already, without a
// reservation. One whose slot is over is forgotten when its room is wanted.
type turns struct {
	mu   sync.Mutex
	held map[string]*fairlimit.Reservation
}

// enter makes room for one turn, before anything is asked. Take undoes it.
func (t *turns) enter(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) >= mostTurns {
		maps.DeleteFunc(t.held, func(_ string, r *fairlimit.Reservation) bool { return r != nil && isOver(r) })
	}
	if len(t.held) >= mostTurns {
		return fmt.Errorf("%w: %d turns are reserved", errTooMany, mostTurns)
	}
	t.held[name] = nil
	return nil
}

// keep takes a turn for which enter made room.
func (t *turns) keep(name string, r *fairlimit.Reservation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[name] = r
}

// take returns a turn and forgets it.
func (t *turns) take(name string) (*fairlimit.Reservation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.held[name]
	delete(t.held, name)
	if r == nil || isOver(r) {
		return nil, errNoReservation
	}
	return r, nil
}

func isOver(r *fairlimit.Reservation) bool { return time.Since(r.Slot()) > remembered }

// unsettled are turns that can still be settled, the oldest first. Beyond
// mostTurns the oldest is forgotten: nobody is refused because others do not
// settle.
type unsettled struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	byAge  list.List // of *owing
}

// owing is a turn of which nobody has said yet what it used.
type owing struct {
	name  string
	until time.Time
	settler
}

// settler is a turn, or a reservation.
type settler interface {
	Settle(ctx context.Context, used fairlimit.Amounts) error
}

// keep remembers a turn whose slot comes after the delay.
func (u *unsettled) keep(name string, s settler, delay time.Duration) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.byName) >= mostTurns {
		u.drop(u.byAge.Front())
	}
	u.byName[name] = u.byAge.PushBack(&owing{name, now.Add(delay + settleable), s})
}

// drop, under mu, forgets a turn.
func (u *unsettled) drop(e *list.Element) { delete(u.byName, u.byAge.Remove(e).(*owing).name) }

// settle forgets the turn, unless it can still be settled.
func (u *unsettled) settle(ctx context.Context, name string, used fairlimit.Amounts) error {
	u.mu.Lock()
	e := u.byName[name]
	u.mu.Unlock()
	switch {
	case e == nil:
		return errNoTurn
	case time.Now().After(e.Value.(*owing).until):
		return errTooLate
	}
	err := e.Value.(*owing).Settle(ctx, used)
	if err == nil || errors.Is(err, fairlimit.ErrOutcomeUnknown) || errors.Is(err, fairlimit.ErrReservationOver) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.byName[name] == e {
			u.drop(e)
		}
	}
	return err
}
