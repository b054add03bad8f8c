package serve

import (
	"errors"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

// history is the last hour of a queue, minute by minute, of the callers of this
// server. Its size never changes.
type history struct {
	mu      sync.Mutex
	minutes [60]minute
}

// minute is what happened in one. Its place in the history is its number
// modulo 60.
type minute struct {
	Number  int64 `json:"minute"`     // since 1970
	Turns   int64 `json:"turns"`      // that came
	Waited  int64 `json:"waited_ms"`  // by all of them together
	Longest int64 `json:"longest_ms"` // by one of them
	Refused int64 `json:"refused"`    // 409
	TooMany int64 `json:"too_many"`   // 429
	Failed  int64 `json:"failed"`     // 503
}

// add counts a caller that was answered. Those who left were not.
func (h *history) add(waited time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.now(time.Now())
	switch {
	case err == nil:
		m.Turns++
		m.Waited += waited.Milliseconds()
		m.Longest = max(m.Longest, waited.Milliseconds())
	case errors.As(err, new(*fairlimit.RefusedError)):
		m.Refused++
	case errors.Is(err, errTooMany):
		m.TooMany++
	case statusOf(err) >= 500:
		m.Failed++
	}
}

// now, under mu, is the minute of a moment.
func (h *history) now(at time.Time) *minute {
	number := at.Unix() / 60
	m := &h.minutes[number%60]
	if m.Number != number {
		*m = minute{Number: number}
	}
	return m
}

// last are the minutes of the last hour in which something happened, the oldest
// first.
func (h *history) last(at time.Time) []minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := []minute{}
	for number := at.Unix()/60 - 59; number <= at.Unix()/60; number++ {
		if m := h.minutes[number%60]; m.Number == number && m != (minute{Number: number}) {
			last = append(last, m)
		}
	}
	return last
}
