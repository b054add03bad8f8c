// Package wire is what the parent and a client process say to each other: one
// JSON value a line, orders on the client's standard input, news on its
// standard output. The end of the orders is an order too: to end at once.
package wire

import (
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
)

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
	Load     load.Load
	Client   int
	Callers  int
}

// News is what a client tells the parent. One field is set.
type News struct {
	Ready  bool          `json:"ready,omitempty"` // connected; waits for Start
	Call   *metrics.Call `json:"call,omitempty"`  // a call has ended
	Done   *Done         `json:"done,omitempty"`  // last
	Failed string        `json:"failed,omitempty"`

	// RedisCalls comes with Call: the commands sent so far, in case nothing
	// more is heard.
	RedisCalls int `json:"redis_calls,omitempty"`
}

// Done is a client's account of itself.
type Done struct {
	RedisCalls int `json:"redis_calls"` // commands it sent while it ran
}
