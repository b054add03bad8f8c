package scenario

import (
	"time"
)

var laggy = Scenario{
	Name:  "laggy",
	About: "saturated, and what Redis answers is held up for 0.2 to 200 ms, with a heavy tail",
	// A caller goes when its reply is there, so the delays of the replies are
	// part of the spread that the guard must cover.
	Load:    Load{Guard: 250 * time.Millisecond},
	Replies: &Delay{Least: 200 * time.Microsecond, Most: 200 * time.Millisecond},
	Behave:  steady.Behave,
}
