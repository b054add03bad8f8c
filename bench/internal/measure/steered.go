package measure

import (
	"slices"
	"time"
)

// Steering is what came of what was done to the limiter, or to the upstream. A
// field is nil where that was not done.
type Steering struct {
	ClosedCalls  *int      `json:"closed_calls,omitempty"`  // ran into the closed door of the upstream
	UnheardCalls *int      `json:"unheard_calls,omitempty"` // of them: those that should have heard of the pause
	MachineCalls int       `json:"machine_unheard_calls,omitempty"`
	IdleMS       *float64  `json:"idle_ms,omitempty"`       // from when the door was open until somebody came
	LostCalls    *int      `json:"lost_calls,omitempty"`    // waited at a reset and still wait
	MaxInEras    []int     `json:"max_in_eras,omitempty"`   // the most permits in any window, under each quota
	EraPermits   []int     `json:"era_permits,omitempty"`   // and how many it allows
	QuotaUsedMS  []float64 `json:"quota_used_ms,omitempty"` // until each new quota was used once
}

func steering(log Log, arrived []Call, rule Rule, h hindrance) (s Steering) {
	if log.Closed.To > 0 {
		s.paused(log, arrived, rule, h)
	}
	if log.Reset.To > 0 {
		lost := lost(log, rule)
		s.LostCalls = &lost
	}
	if len(log.Eras) > 0 {
		s.MaxInEras, s.EraPermits = inEras(log, arrived, rule)
	}
	s.QuotaUsedMS = quotaUsed(log, arrived)
	return s
}

// paused is about a door that is closed. Whoever is there more than Within after
// the first pause was recorded should have heard of it.
func (s *Steering) paused(log Log, arrived []Call, rule Rule, h hindrance) {
	closed, unheard := 0, 0
	idle := max(0, log.End-log.Closed.To)
	for _, c := range arrived {
		if !c.Closed {
			if c.Arrived >= log.Closed.To {
				idle = min(idle, c.Arrived-log.Closed.To)
			}
			continue
		}
		closed++
		heard := log.Paused + log.Within
		switch {
		case log.Paused == 0 || c.Arrived <= heard:
		case h.deaf(c, heard, log.Within, rule.Blur):
			s.MachineCalls++
		default:
			unheard++
		}
	}
	ms := Milliseconds(idle)
	s.ClosedCalls, s.UnheardCalls, s.IdleMS = &closed, &unheard, &ms
}

// deaf reports whether the machine is why a call went that should have heard by
// a moment: without its delays it would have gone before, or it took away a
// quarter of the time to hear.
func (h hindrance) deaf(c Call, heard, within, blur time.Duration) bool {
	if c.Turn == nil {
		return c.Arrived-max(0, c.Arrived-c.Ended) <= heard
	}
	held := h.answering(c) + h.after(c) + min(blur, h.unexplained(c))
	if c.Arrived-held <= heard {
		return true
	}
	return c.Client < len(h.asking) && h.asking[c.Client].within(c.Arrived-within, c.Arrived) > within/4
}

// lost are the calls that waited at the reset and still do, although everybody
// could have gone three times since.
func lost(log Log, rule Rule) (n int) {
	callers := 0
	for _, of := range log.Callers {
		callers += of
	}
	rounds := time.Duration(3 * (callers + rule.Permits - 1) / rule.Permits)
	if log.End-log.Reset.To < log.Within+rounds*rule.period() {
		return 0
	}
	for _, c := range log.Calls {
		if c.Outcome == Waiting && c.Called < log.Reset.To {
			n++
		}
	}
	return n
}

// inEras is the most permits in any window that lies under one quota of the
// upstream, and how many that quota allows, without times of no quota.
func inEras(log Log, arrived []Call, rule Rule) (most, permits []int) {
	eras := slices.Concat([]Era{{From: log.Begin, Permits: rule.Permits}}, log.Eras)
	for i, era := range eras {
		if era.Permits == Unlimited {
			continue
		}
		end := log.End + 1
		if i+1 < len(eras) {
			end = eras[i+1].From
		}
		var inside []Call
		for _, c := range arrived {
			if c.Arrived >= era.From && c.Arrived < end {
				inside = append(inside, c)
			}
		}
		most, permits = append(most, maxInWindow(inside, rule.Per)), append(permits, era.Permits)
	}
	return most, permits
}

// quotaUsed is, for each new quota, the time until as many permits as it has
// were used.
func quotaUsed(log Log, arrived []Call) (used []float64) {
	for i, from := range log.Quotas {
		if i >= len(log.Eras) {
			break
		}
		left := log.Eras[i].Permits
		for _, c := range arrived {
			if c.Arrived < from || c.Rejected {
				continue
			}
			if left -= c.Permits; left <= 0 {
				used = append(used, Milliseconds(c.Arrived-from))
				break
			}
		}
	}
	return used
}

// permits are those of the upstream's quota at a moment, none while it is
// closed.
func (l Log) permits(at time.Duration, rule Rule) int {
	if at >= l.Closed.From && at < l.Closed.To {
		return 0
	}
	permits := rule.Permits
	for _, era := range l.Eras {
		if era.From <= at && era.Permits != Unlimited {
			permits = era.Permits
		}
	}
	return permits
}

// turningPoints are the moments at which permits changes.
func (l Log) turningPoints() (all []time.Duration) {
	if l.Closed.To > 0 {
		all = append(all, l.Closed.From, l.Closed.To)
	}
	for _, era := range l.Eras {
		all = append(all, era.From)
	}
	return all
}

// queues are the calls that stand in one line. A reset begins a new one. Those
// who wait at that moment line up again, each process by itself, so among them
// order is that of a process.
func (l Log) queues() [][]Call {
	if l.Reset.To == 0 {
		return [][]Call{l.Calls}
	}
	before := make([][]Call, len(l.Callers))
	var after []Call
	for _, c := range l.Calls {
		if c.Called < l.Reset.To {
			before[c.Client] = append(before[c.Client], c)
		} else {
			after = append(after, c)
		}
	}
	return append(before, after)
}

// answered are the calls by the queue that answered them: the one before the
// reset, and the one after it.
func (l Log) answered() [][]Call {
	if l.Reset.To == 0 {
		return [][]Call{l.Calls}
	}
	var before, after []Call
	for _, c := range l.Calls {
		switch {
		case c.Turn == nil:
		case c.Turn.Replied < l.Reset.From:
			before = append(before, c)
		case c.Turn.Sent >= l.Reset.To:
			after = append(after, c)
		}
	}
	return [][]Call{before, after}
}
