package metrics

// Figures are what one engine did in one scenario. A field that says nothing about an engine is nil.
type Figures struct {
	Grants             int        `json:"grants"`
	Refused            int        `json:"refused"`
	Failed             int        `json:"failed"`
	Inversions         int        `json:"inversions"`
	MaxOvertake        int        `json:"max_overtake"`
	UpstreamRejections int        `json:"upstream_rejections"`
	MaxInWindow        int        `json:"max_in_window"`
	Utilization        float64    `json:"utilization"`
	Jain               float64    `json:"jain"`
	ShareMaxOverMin    *float64   `json:"share_max_over_min"` // null: a client got nothing
	LongestStarvedMS   float64    `json:"longest_starved_ms"`
	WaitMS             Quantiles  `json:"wait_ms"`
	LatenessMS         *Quantiles `json:"lateness_ms,omitempty"`
	Early              *int       `json:"early,omitempty"`
	SpreadMS           *float64   `json:"spread_ms,omitempty"`
	Shares             []Share    `json:"clients"`
}

// Of computes the figures of a log.
func Of(log Log, rule Rule) Figures {
	arrived, got := arrivals(log.Calls), shares(log)
	f := Figures{
		MaxInWindow:      maxInWindow(arrived, rule.Per),
		Utilization:      utilization(log, arrived, rule),
		Jain:             jain(got),
		ShareMaxOverMin:  maxOverMin(got),
		LongestStarvedMS: Milliseconds(longestStarved(log)),
		WaitMS:           quantiles(waits(log.Calls)),
		SpreadMS:         spread(arrived),
		Shares:           got,
	}
	f.Inversions, f.MaxOvertake = overtaking(log.Calls, rule.Apart)
	for _, c := range log.Calls {
		switch c.Outcome {
		case Granted:
			f.Grants++
		case Refused:
			f.Refused++
		case Failed:
			f.Failed++
		}
		if c.Rejected {
			f.UpstreamRejections++
		}
	}
	if rule.Queues {
		late, early := punctuality(log.Calls)
		q := quantiles(late)
		f.LatenessMS, f.Early = &q, &early
	}
	return f
}
