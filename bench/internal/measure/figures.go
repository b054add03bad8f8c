package measure

import "time"

// Figures are what one engine did in one scenario. A field that says nothing
// about an engine is nil.
//
// Inversions, MaxOvertake and UpstreamRejections are the engine's. What
// bystanders show to be the machine's work is counted apart.
type Figures struct {
	Grants             int       `json:"grants"`
	Permits            int       `json:"permits"` // granted
	Refused            int       `json:"refused"`
	Left               int       `json:"left"` // gave up by themselves
	Failed             int       `json:"failed"`
	Inversions         int       `json:"inversions"`
	MaxOvertake        int       `json:"max_overtake"`
	UpstreamRejections int       `json:"upstream_rejections"`
	MachineInversions  int       `json:"machine_inversions"`
	MachineRejections  int       `json:"machine_rejections"`
	MaxInWindow        int       `json:"max_in_window"`
	MissedTurns        int       `json:"missed_turns"` // the process woke too late for them
	Utilization        Part      `json:"utilization"`
	Jain               float64   `json:"jain"`
	ShareMaxOverMin    *float64  `json:"share_max_over_min"` // null: a client got nothing
	SmallestShare      Part      `json:"smallest_share"`     // of all permits
	LongestStarvedMS   MS        `json:"longest_starved_ms"`
	WaitMS             Quantiles `json:"wait_ms"`
	Output             *Output   `json:"output,omitempty"`
	Shares             []Share   `json:"clients"`
	Phases             []Phase   `json:"phases,omitempty"`
}

// Of computes the figures of a log.
func Of(log Log, rule Rule) Figures {
	arrived, got := arrivals(log.Calls), shares(log)
	f := Figures{
		MaxInWindow:      maxInWindow(arrived, rule.Per),
		SmallestShare:    smallest(log, arrived, rule),
		LongestStarvedMS: MS(longestStarved(log.Calls)),
		WaitMS:           quantiles(waits(log.Calls)),
		Shares:           got,
		Phases:           phases(log, arrived, rule),
	}
	f.Jain, f.ShareMaxOverMin = jain(got)
	f.Output = outputOf(arrived, rule)
	if f.Utilization = utilization(log, arrived, rule); rule.Output > 0 {
		f.Utilization = usedOutput(log, arrived, rule)
	}
	machine := log.Machine
	for _, missed := range machine.Missed {
		f.MissedTurns += len(missed)
	}
	seen, _ := overtaking(log.Calls, rule.Apart, func(Call) (time.Duration, bool) { return 0, false })
	f.Inversions, f.MaxOvertake = overtaking(log.Calls, rule.Apart, machine.hindered)
	f.MachineInversions = seen - f.Inversions
	f.UpstreamRejections, f.MachineRejections = rejected(arrived, rule, machine)
	ended := map[Outcome]int{}
	for _, c := range log.Calls {
		if ended[c.Outcome]++; c.Outcome == Granted {
			f.Permits += c.Permits
		}
	}
	f.Grants, f.Refused, f.Left, f.Failed = ended[Granted], ended[Refused], ended[Left], ended[Failed]
	return f
}
