package measure

import (
	"cmp"
	"slices"
	"time"
)

// rejections are the calls that a strict upstream turns away, if each reaches
// it when the machine would have let it.
func rejections(arrived []Call, rule Rule, eras []Era, held func(Call) time.Duration) (turnedAway int) {
	type arrival struct {
		at      time.Duration
		permits int
	}
	all := make([]arrival, 0, len(arrived))
	for _, c := range arrived {
		if !c.Closed {
			all = append(all, arrival{c.Arrived - held(c), c.Permits})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	var admitted []arrival
	within, permits := 0, rule.Permits
	for _, a := range all {
		for ; len(eras) > 0 && eras[0].From <= a.at; eras = eras[1:] {
			if permits = eras[0].Permits; eras[0].Anew {
				admitted, within = nil, 0
			}
		}
		for len(admitted) > 0 && admitted[0].at <= a.at-rule.Per {
			within -= admitted[0].permits
			admitted = admitted[1:]
		}
		if a.permits > permits-within {
			turnedAway++
			continue
		}
		within += a.permits
		admitted = append(admitted, a)
	}
	return turnedAway
}

// rejected counts what the upstream turned away: what is the engine's doing,
// and what is the machine's. A call whose answer was held up may have had its
// slot before that or after; it is taken as it explains more.
func rejected(arrived []Call, rule Rule, eras []Era, h hindrance) (engines, machines int) {
	all := 0
	for _, c := range arrived {
		if c.Rejected && !c.Closed {
			all++
		}
	}
	if all == 0 {
		return 0, 0
	}
	after := func(c Call) time.Duration { return h.after(c) + min(rule.Blur, h.unexplained(c)) }
	answering := func(c Call) time.Duration { return h.answering(c) + after(c) }
	engines = min(all,
		rejections(arrived, rule, eras, unusual(after)), rejections(arrived, rule, eras, unusual(answering)))
	return engines, all - engines
}

// ordinary is a delay that every machine has, also a quiet one. Whoever is
// without a guard pays for it.
const ordinary = 5 * time.Millisecond

// unusual is the part of a delay that is not ordinary.
func unusual(held func(Call) time.Duration) func(Call) time.Duration {
	return func(c Call) time.Duration { return max(0, held(c)-ordinary) }
}

// overfull counts the windows, each beginning with a turn, that hold more turns
// than the guarded quota beyond doubt: each turn is taken at the end of its
// uncertainty that lies outside.
func overfull(calls []Call, rule Rule) (windows int) {
	type mark struct {
		at      time.Duration
		permits int
	}
	var earliest, latest []mark
	for _, c := range calls {
		if t := c.Turn; c.Reached && t != nil && !t.Unknown {
			earliest = append(earliest, mark{t.Sent + t.Wait, c.Permits})
			latest = append(latest, mark{t.Replied + t.Wait, c.Permits})
		}
	}
	inOrder := func(a, b mark) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(earliest, inOrder)
	slices.SortFunc(latest, inOrder)
	inside, next := 0, 0
	for _, first := range earliest {
		for next < len(latest) && latest[next].at < first.at+rule.period()-promiseTolerance {
			inside += latest[next].permits
			next++
		}
		if inside > rule.Permits {
			windows++
		}
		inside -= first.permits
	}
	return windows
}
