package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	mostTurns = 10_000

	// remembered is how long a turn is known after its slot.
	remembered = 10 * time.Second
)

var errNoTurn = errors.New("no such turn: it has passed, or was given back")

// turns are those that callers hold, by the name that they were told. A turn is
// forgotten some time after its slot.
type turns struct {
	mu   sync.Mutex
	held map[string]*fairlimit.Reservation
	room int
}

func newTurns() *turns {
	return &turns{held: map[string]*fairlimit.Reservation{}, room: mostTurns}
}

// enter makes room for one turn, before anything is asked. Leave undoes it.
func (t *turns) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.room == 0 {
		return fmt.Errorf("%w: %d turns are reserved", errTooMany, mostTurns)
	}
	t.room--
	return nil
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room++
}

// keep names a turn for which enter made room. The name cannot be guessed.
func (t *turns) keep(r *fairlimit.Reservation) (name string) {
	name = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[name] = r
	time.AfterFunc(r.Delay()+remembered, func() { t.take(name) })
	return name
}

// take returns a turn and forgets it.
func (t *turns) take(name string) (*fairlimit.Reservation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.held[name]
	if r == nil {
		return nil, errNoTurn
	}
	delete(t.held, name)
	t.room++
	return r, nil
}
