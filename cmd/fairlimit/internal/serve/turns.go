package serve

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	// mostTurns are remembered. Beyond them the oldest is forgotten: nobody is
	// refused because others do not settle, or reserve without end.
	mostTurns = 10_000

	// remembered is how long a turn can be settled, or given back, after its
	// slot. What is later than that counts as it was reserved.
	remembered = 15 * time.Minute
)

var errNoTurn = errors.New("no such turn to settle or give back: it named no unit, was settled or given back, " +
	"or is forgotten")

// held is a turn that was granted: one that named a unit, or a reservation.
type held struct {
	name        string
	until       time.Time
	reservation *fairlimit.Reservation // nil if it has come
	settle      func(ctx context.Context, used fairlimit.Amounts) error
}

// turns are those that callers hold, by the name that they were told, which
// cannot be guessed.
type turns struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	byAge  list.List // of *held, the oldest first
}

// keep remembers a turn whose slot comes after the delay.
func (t *turns) keep(h *held, delay time.Duration) {
	h.until = time.Now().Add(delay + remembered)
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.byName) >= mostTurns {
		t.drop(t.byAge.Front())
	}
	t.byName[h.name] = t.byAge.PushBack(h)
}

// drop, under mu, forgets a turn.
func (t *turns) drop(e *list.Element) { delete(t.byName, t.byAge.Remove(e).(*held).name) }

func (t *turns) find(name string) (*held, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[name]; e != nil && time.Now().Before(e.Value.(*held).until) {
		return e.Value.(*held), nil
	}
	return nil, errNoTurn
}

// forget is for a turn that is over.
func (t *turns) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[name]; e != nil {
		t.drop(e)
	}
}
