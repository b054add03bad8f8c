// Package quotatext writes quotas as text that a person can write as well, and
// reads it:
//
//	20/1s 100/2m burst 10
//
// is 20 permits a second, and 100 in two minutes, at most 10 of them at one
// moment. Lengths are those of [ParseDuration].
package quotatext

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

const wanted = `want <permits>/<duration>, as in "20/1s" or "100/2m burst 10"`

// separated is for what was meant for several quotas.
const separated = `spaces separate quotas, and ";" units, as in "60/1m 900/1h; tokens 20000/1m"`

// UnitNames says which names IsUnit allows.
const UnitNames = "a name has up to 32 letters, digits, - and _, begins with a letter, and is not " +
	"burst, calls, flows or quota"

// taken are words of a quota's text, and what keys of a queue are named after.
var taken = []string{"burst", "calls", "flows", "quota"}

// Parse reads any number of quotas, separated by white space. An empty text has
// none.
func Parse(text string) (quotas []engine.Quota, err error) {
	if strings.Contains(text, ",") {
		return nil, fmt.Errorf("a comma in %.100q: %s", text, separated)
	}
	for words := strings.Fields(slashes.ReplaceAllString(text, "/")); len(words) > 0; {
		var q engine.Quota
		if q, words, err = next(words); err != nil {
			return nil, err
		}
		quotas = append(quotas, q)
	}
	return quotas, nil
}

// ParseAll reads quotas, and behind semicolons those of further units:
//
//	60/1m; tokens 20000/1m burst 5000
func ParseAll(text string) (quotas []engine.Quota, units []engine.Unit, err error) {
	parts := strings.Split(text, ";")
	if quotas, err = Parse(parts[0]); err != nil {
		return nil, nil, err
	}
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		u := engine.Unit{Name: name}
		if !IsUnit(name) {
			return nil, nil, fmt.Errorf("unit %.40q: %s", name, `want <unit> <quota>, as in "tokens 20000/1m"`)
		}
		if slices.ContainsFunc(units, func(u engine.Unit) bool { return u.Name == name }) {
			return nil, nil, fmt.Errorf("unit %q: it is there twice", name)
		}
		if u.Quotas, err = Parse(rest); err != nil {
			return nil, nil, fmt.Errorf("unit %q: %w", name, err)
		}
		if len(u.Quotas) == 0 {
			return nil, nil, fmt.Errorf("unit %q: it has no quota", name)
		}
		units = append(units, u)
	}
	if len(units) > 0 && len(quotas) == 0 {
		return nil, nil, fmt.Errorf("no quota for calls in %.100q: %s", text, wanted)
	}
	slices.SortFunc(units, func(a, b engine.Unit) int { return strings.Compare(a.Name, b.Name) })
	return quotas, units, nil
}

// IsUnit reports whether a unit can have the name: it stands in the state and in
// stored quotas.
func IsUnit(name string) bool {
	return len(name) <= 32 && unitName.MatchString(name) && !slices.Contains(taken, name)
}

var unitName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// ParseOne reads a text of one quota.
func ParseOne(text string) (engine.Quota, error) {
	quotas, err := Parse(text)
	switch {
	case err != nil:
		return engine.Quota{}, err
	case len(quotas) != 1:
		return engine.Quota{}, fmt.Errorf("%d quotas in %.100q, want one", len(quotas), text)
	}
	return quotas[0], nil
}

// next reads the quota that the words begin with, and returns those behind it.
func next(words []string) (q engine.Quota, rest []string, err error) {
	permits, per, _ := strings.Cut(words[0], "/")
	if q.Permits, err = count(permits); err != nil {
		hint := wanted
		if unitName.MatchString(words[0]) {
			hint = `the only word in a quota is "burst"; ` + separated
		}
		return q, nil, fmt.Errorf("permits of %.100q: %w: %s", words[0], err, hint)
	}
	if per == "" {
		return q, nil, fmt.Errorf("%.100q has no duration: %s", words[0], wanted)
	}
	if q.Per, err = ParseDuration(per); err != nil {
		return q, nil, fmt.Errorf("duration of %.100q: %w", words[0], err)
	}
	if q.Per <= 0 {
		return q, nil, fmt.Errorf("duration of %.100q: want more than 0", words[0])
	}
	if rest = words[1:]; len(rest) == 0 || rest[0] != "burst" {
		return q, rest, nil
	}
	if len(rest) == 1 {
		return q, nil, fmt.Errorf("burst of %.100q: no number: %s", words[0], wanted)
	}
	if q.Burst, err = count(rest[1]); err != nil {
		return q, nil, fmt.Errorf("burst of %.100q: %w: %s", words[0], err, wanted)
	}
	if q.Burst > q.Permits {
		return q, nil, fmt.Errorf("burst of %.100q: %d is more than its permits", words[0], q.Burst)
	}
	return q, rest[2:], nil
}

// slashes may stand apart.
var slashes = regexp.MustCompile(`\s*/\s*`)

// ParseDuration reads what [time.ParseDuration] reads, the units sec, second,
// min, minute, hour, d and day, and a unit alone for one of it. It refuses what
// is less than a microsecond, in which nothing here counts.
func ParseDuration(text string) (time.Duration, error) {
	unit := strings.TrimLeft(text, "0123456789.")
	number, times := text[:len(text)-len(unit)], time.Duration(1)
	if number == "" && !strings.ContainsAny(unit, "0123456789") {
		number = "1"
	}
	switch unit {
	case "sec", "second":
		unit = "s"
	case "min", "minute":
		unit = "m"
	case "hour":
		unit = "h"
	case "d", "day":
		unit, times = "h", 24
	}
	d, err := time.ParseDuration(number + unit)
	switch _, notNumber := strconv.ParseFloat(text, 64); {
	case err != nil && notNumber == nil:
		return 0, fmt.Errorf("the unit is missing, as in %.20[1]sms, %.20[1]ss or %.20[1]sm", text)
	case err != nil || d > math.MaxInt64/times:
		return 0, errors.New("want a duration, such as 50ms, 30s, 10min or 1h30m")
	case d > 0 && d < time.Microsecond:
		return 0, fmt.Errorf("%v is less than a microsecond", d)
	}
	return d * times, nil
}

func count(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, strconv.IntSize-1)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.30s is too many", digits)
	case err != nil:
		return 0, fmt.Errorf("%.30q is no number", digits)
	case n == 0:
		return 0, fmt.Errorf("%.30s is too few", digits)
	}
	return int(n), nil
}

// Format writes a quota as Parse reads it.
func Format(q engine.Quota) string {
	text := strconv.Itoa(q.Permits) + "/" + Duration(q.Per)
	if q.Burst > 0 {
		text += " burst " + strconv.Itoa(q.Burst)
	}
	return text
}

// FormatAll writes quotas as Parse reads them.
func FormatAll(quotas []engine.Quota) string {
	words := make([]string, len(quotas))
	for i, q := range quotas {
		words[i] = Format(q)
	}
	return strings.Join(words, " ")
}

// FormatUnits writes quotas and those of units as ParseAll reads them.
func FormatUnits(quotas []engine.Quota, units []engine.Unit) string {
	text := FormatAll(quotas)
	for _, u := range units {
		text += "; " + u.Name + " " + FormatAll(u.Quotas)
	}
	return text
}

// Duration is what a person would write: 2m and not 2m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if minutes, whole := strings.CutSuffix(text, "m0s"); whole {
		text = minutes + "m"
	}
	if hours, whole := strings.CutSuffix(text, "h0m"); whole {
		text = hours + "h"
	}
	return text
}
