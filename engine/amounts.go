package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Unit is what further quotas count, such as tokens. Quota and Extra of
// [Config] count calls.
type Unit struct {
	Name   string
	Quotas []Quota // at least one
}

// Amounts says how much of each further unit a turn takes, by name:
// "output=300 tokens=1200". A unit that is left out counts 0. As a text, amounts
// can be compared.
type Amounts string

// AmountsOf writes amounts. Those of 0 are left out.
func AmountsOf(all map[string]int) Amounts {
	var words []string
	for _, unit := range slices.Sorted(maps.Keys(all)) {
		if all[unit] != 0 {
			words = append(words, unit+"="+strconv.Itoa(all[unit]))
		}
	}
	return Amounts(strings.Join(words, " "))
}

// All reads the amounts, by their units.
func (a Amounts) All() map[string]int {
	all := map[string]int{}
	for _, word := range strings.Fields(string(a)) {
		unit, number, _ := strings.Cut(word, "=")
		all[unit], _ = strconv.Atoi(number)
	}
	return all
}
