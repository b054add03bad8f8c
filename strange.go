package fairlimit

import (
	"sync"
	"time"
)

// strangeFor is how long quotas count as different after an answer said so. It
// says so only if the caller before was a stranger: see [engine.News].
const strangeFor = 10 * time.Minute

// strange knows since when other limiters of the name have other quotas.
type strange struct {
	mu   sync.Mutex
	last time.Time
}

// begins reports whether quotas differ anew, as an answer says at this time.
func (s *strange) begins(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	anew := s.last.IsZero() || now.Sub(s.last) > strangeFor
	s.last = now
	return anew
}
