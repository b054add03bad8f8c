package fairlimit

import (
	"errors"
	"sync"
)

// once guards what happens once: a turn is settled, a reservation is over. Mu
// guards other fields of its owner as well.
type once struct {
	mu   sync.Mutex
	over bool
}

// begins reports whether it happens now: it has not yet, and may says yes.
func (o *once) begins(may func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || !may() {
		return false
	}
	o.over = true
	return true
}

// try does what has begun. If Redis was not reached, or refused, it can begin again.
func (o *once) try(do func() error) error {
	err := do()
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = false
	}
	return err
}
