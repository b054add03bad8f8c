package run

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// The parent and a client process talk in JSON, one value a line: orders on the
// client's standard input, news on its standard output. The end of the orders is
// an order too: to end at once.

// Order is what the parent tells a client. One field is set.
type Order struct {
	Job   *Job           `json:"job,omitempty"`   // first
	Start *time.Duration `json:"start,omitempty"` // when to begin, on the machine's clock
	Stop  bool           `json:"stop,omitempty"`  // whoever waits goes home; then say Done
}

// Job is everything that a client must know.
type Job struct {
	Scenario string
	Engine   string
	Redis    string
	Via      string // where to connect to instead; empty: nowhere else
	Upstream string
	Name     string // of the limiter
	Load     scenario.Load
	Client   int
	Callers  int
}

// News is what a client tells the parent.
type News struct {
	Ready  bool          `json:"ready,omitempty"`  // connected; waits for Start
	Call   *measure.Call `json:"call,omitempty"`   // a call has ended
	Paused time.Duration `json:"paused,omitempty"` // a pause was recorded, at this moment
	Done   bool          `json:"done,omitempty"`   // last
	Failed string        `json:"failed,omitempty"`

	// These come with Call and Done, in case nothing more is heard: the
	// commands sent so far, and since the last news what the limiter noted of
	// turns and the stalls that a bystander saw.
	RedisCalls int             `json:"redis_calls,omitempty"`
	Told       measure.Told    `json:"told,omitzero"`
	Stalls     []measure.Stall `json:"stalls,omitempty"`
}

// hear turns the orders into a channel that is closed when they end.
func hear(orders io.Reader) <-chan Order {
	heard := make(chan Order, 3)
	go func() {
		defer close(heard)
		decoder := json.NewDecoder(orders)
		for {
			var order Order
			if decoder.Decode(&order) != nil {
				return
			}
			heard <- order
		}
	}()
	return heard
}

// speaker writes the news, one after the other. A parent that is gone hears
// nothing.
type speaker struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *speaker) say(n News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(s.w).Encode(n)
}
