package measure

import (
	"slices"
	"time"
)

// Phase is what went on from one change to the next, or to the end of the run.
type Phase struct {
	FromMS  MS  `json:"from_ms"` // of the run
	Permits int `json:"permits"` // that a window may hold

	// First are the calls let through in its first two windows.
	First  int       `json:"first"`
	WaitMS Quantiles `json:"wait_ms"` // of the calls let through in it

	// LastMS is how long after its begin the last of those went who waited then. It
	// is nil if somebody never went.
	LastMS *MS `json:"last_ms"`

	// MaxInWindow is the most permits in a window that begins Heard after the phase,
	// or later.
	MaxInWindow int `json:"max_in_window"`
	Rejections  int `json:"upstream_rejections"`
}

// Heard is the time until everybody has heard of a change.
const Heard = time.Second

// phases are nil where nothing changes. Calls of a client that was killed do not
// count, since it has not told of all.
func phases(log Log, arrived []Call, rule Rule) (all []Phase) {
	if len(rule.Changes) == 0 {
		return nil
	}
	calls := slices.DeleteFunc(slices.Clone(log.Calls), func(c Call) bool { return !log.Told[c.Client] })
	begins := append([]Change{{log.Begin, rule.Permits}}, rule.Changes...)
	for i, change := range begins {
		end := log.End
		if i+1 < len(begins) {
			end = begins[i+1].At
		}
		all = append(all, phase(log.Begin, change, end, calls, arrived, rule.Per))
	}
	return all
}

func phase(begin time.Duration, c Change, end time.Duration, calls, arrived []Call, per time.Duration) Phase {
	p := Phase{FromMS: MS(c.At - begin), Permits: c.Permits, LastMS: new(MS)}
	var through, heard []Call
	for _, call := range calls {
		gone := call.Gone()
		if call.Outcome == Granted && c.At <= gone && gone < end {
			through = append(through, call)
		}
		switch waited := call.Called <= c.At && c.At < gone; {
		case waited && call.Outcome == Waiting:
			p.LastMS = nil
		case waited && p.LastMS != nil:
			*p.LastMS = max(*p.LastMS, MS(gone-c.At))
		}
	}
	p.WaitMS = quantiles(waits(through))
	for _, call := range arrived {
		if call.Arrived < c.At || call.Arrived >= end {
			continue
		}
		if call.Arrived < c.At+2*per {
			p.First++
		}
		if call.Arrived >= c.At+Heard || c.At == begin {
			heard = append(heard, call)
		}
		if call.Rejected {
			p.Rejections++
		}
	}
	p.MaxInWindow = maxInWindow(heard, per)
	return p
}
