package fair

import (
	"fmt"
	"sync"
	"time"
)

// memory is what this limiter was told last of its queue. It goes along with every question: a state that does not know of it has lost something
// (a server that was flushed or restarted empty, a key evicted, a replica promoted that had not heard all), and then counts what is missing as
// full. It is dropped once the queue has ended by this process's clock as well, so that a server whose clock goes back does not seem to have lost
// a queue that ended in its natural way.
type memory struct {
	mu      sync.Mutex
	told    told
	expires time.Time
}

// told is one state of a queue: how many permits it had granted in its generation, when, on the queue's clock, and, on the server's, its newest
// slot and when its key ends. Moments are microseconds.
type told struct {
	generation                   string
	sequence, clock, newest, end int64
}

// recall returns what is remembered as the script takes it, nothing if it is over.
func (m *memory) recall() (state, when string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told.end == 0 || time.Now().After(m.expires) {
		return "", ""
	}
	return fmt.Sprint(m.told.generation, " ", m.told.sequence, " ", m.told.clock), fmt.Sprint(m.told.newest, " ", m.told.end)
}

// learn keeps what is newer than what is known: replies may arrive out of order. A queue whose state was lost and begun anew may count less than
// before, but its clock goes on.
func (m *memory) learn(t told, left time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.generation == m.told.generation && (t.clock < m.told.clock || t.clock == m.told.clock && t.sequence <= m.told.sequence) {
		return
	}
	m.told, m.expires = t, time.Now().Add(left)
}

// now is what is known, over or not.
func (m *memory) now() told {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told
}

// forget drops what was told so far, unless something else has been learned since.
func (m *memory) forget(t told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told == t {
		m.told = told{}
	}
}
