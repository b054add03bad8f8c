package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unit is what further quotas count, such as tokens. Quota and Extra of
// [Config] count calls.
type Unit struct {
	Name   string
	Quotas []Quota // at least one

	// Guard takes the place of Guard of [Config] for this unit, unless it is nil.
	Guard *time.Duration
}

// Amounts says how much of each further unit a turn takes, by name:
// "output=300 tokens=1200". A unit that is left out counts 0. As a text, amounts
// can be compared.
type Amounts string

// Amount is how much of one unit.
type Amount struct {
	Unit string
	N    int
}

// AmountsOf writes amounts. Those of 0 are left out.
func AmountsOf(all ...Amount) Amounts {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Amount) int { return cmp.Compare(a.Unit, b.Unit) })
	var words []string
	for _, a := range all {
		if a.N != 0 {
			words = append(words, a.Unit+"="+strconv.Itoa(a.N))
		}
	}
	return Amounts(strings.Join(words, " "))
}

// All reads the amounts, in the order of their units.
func (a Amounts) All() (all []Amount) {
	for _, word := range strings.Fields(string(a)) {
		unit, number, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(number)
		all = append(all, Amount{unit, n})
	}
	return all
}

// Of is how much of one unit.
func (a Amounts) Of(unit string) int {
	for _, amount := range a.All() {
		if amount.Unit == unit {
			return amount.N
		}
	}
	return 0
}

// UnitStatus is the state of one further unit.
type UnitStatus struct {
	Available int // how much a turn could take right now without waiting
	Queued    int // how much is granted for the future
}

// Counter is an [Engine] that counts further units, and lets turns be settled.
//
// A Take decides requests with amounts, in the same order as all others. A
// GiveBack frees all that a grant holds. If the grant says Settles, its turn has
// come, and its N and Amounts are what the turn did not use. Where one of them is
// negative, the turn used more than it had: a debt, which is booked at the tail
// like turns for which nobody waits. Debts are booked first. Then what was not
// used cancels debts of its unit that lie ahead, the newest first, and the rest
// is free again.
type Counter interface {
	Engine

	// FitsAmounts is Fits for amounts. It names the unit that they exceed. For
	// a unit that the engine does not have, the error matches [ErrUnknownUnit].
	FitsAmounts(n int, amounts Amounts) error

	// CostOf is how many permits of calls amounts are worth in the share of a
	// flow, at least 1: those of the unit that takes the most of its quota. It
	// does no I/O.
	CostOf(n int, amounts Amounts) int

	// Units are the further units, as far as they are known. It does no I/O.
	Units() []string

	// Observe books what makes Available of the unit as little as remaining,
	// if it is more.
	Observe(ctx context.Context, unit string, remaining int) error
}

// Storer is a [Counter] whose quotas may be stored. FitsAmounts says nothing then,
// because another quota may hold by now. FitsKnown goes by what the engine heard of
// last: by that, Settle refuses what is beyond reason.
type Storer interface {
	FitsKnown(n int, amounts Amounts) error
}

// UnknownUnit is the error for a unit that is none of those of a queue.
func UnknownUnit(unit string, units []string) error {
	if len(units) == 0 {
		return fmt.Errorf("%w: %q, the queue counts calls only, whose unit is \"\"", ErrUnknownUnit, unit)
	}
	return fmt.Errorf("%w: %q, want one of %q; the unit of calls is \"\"", ErrUnknownUnit, unit, units)
}
