package measure

import "time"

// Steering is what came of what was done to the limiter, or to the upstream. A
// field is nil where that was not done.
type Steering struct {
	ClosedCalls  *int     `json:"closed_calls,omitempty"`  // ran into the closed door of the upstream
	UnheardCalls *int     `json:"unheard_calls,omitempty"` // of them: those that should have heard of the pause
	MachineCalls int      `json:"machine_unheard_calls,omitempty"`
	IdleMS       *float64 `json:"idle_ms,omitempty"` // from when the door was open until somebody came
}

func steering(log Log, arrived []Call, rule Rule, h hindrance) (s Steering) {
	if log.Closed.To > 0 {
		s.paused(log, arrived, rule, h)
	}
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
