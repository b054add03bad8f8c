package httplimit

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// unread is the time that a value tells which cannot be read.
const unread time.Duration = -1

// Numbers are told apart by their size. As seconds, 10⁹ is the year 2001, or a delay
// of 31 years; as milliseconds, 10¹¹ is the year 1973.
const (
	earliestSeconds = 1e9  // 2001
	earliestMillis  = 1e11 // 1973; in seconds, the year 5138
	latestMillis    = 1e14 // the year 5138
	latestNanos     = 1e20 // likewise
)

// readTime is how long it is until the value, as seen from now, or unread. A
// number that is no time since 1970 counts units.
func readTime(value string, unit time.Duration, now time.Time) time.Duration {
	n, ok := decimal(value)
	switch {
	case !ok:
		return readText(value, now)
	case n < earliestSeconds, n < earliestMillis && unit == time.Millisecond:
		return times(n, unit)
	case n < earliestMillis:
		n *= 1000
	case n >= latestNanos:
		return math.MaxInt64
	}
	for n >= latestMillis { // micro- or nanoseconds
		n /= 1000
	}
	return until(time.UnixMilli(int64(math.Ceil(n))), now)
}

func readText(value string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(value); err == nil {
		return max(d, unread)
	}
	if at, ok := date(value); ok {
		return until(at, now)
	}
	return unread
}

func until(at, now time.Time) time.Duration { return max(0, at.Sub(now)) }

// The forms of a date, without a zone. Seconds may have a fraction.
var dates = []string{
	"Mon, 2 Jan 2006 15:04:05",  // HTTP, RFC 1123
	"2 Jan 2006 15:04:05",       // RFC 822 needs no weekday
	"Monday, 2-Jan-06 15:04:05", // RFC 850
	"Mon, 2-Jan-2006 15:04:05",  // cookies
	time.ANSIC,                  // ANSI C
	"Mon Jan 2 2006 15:04:05",   // JavaScript
	"2006-01-02T15:04:05",       // RFC 3339
	"2006-01-02T15:04",          // without seconds
	"2006-01-02 15:04:05",       // SQL, Go, Ruby
}

// The zones that may follow one.
var zones = []string{
	"", " GMT", " UTC", " UT", " Z", "Z", "-07:00", "-0700", " -0700", " -0700 MST", " GMT-0700",
}

// date reads a date of any of these forms. It needs no zone of another name: what
// time.Parse makes of those depends on where the program runs.
func date(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(strings.ToUpper(value), " (") // JavaScript has the zone's name as well
	value, _, _ = strings.Cut(value, " M=")                 // Go has its monotonic clock
	for _, form := range dates {
		for _, zone := range zones {
			if at, err := time.Parse(form+zone, value); err == nil {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// decimal reads digits that may have a fraction, and nothing else that package
// strconv would: no sign, no exponent, no NaN.
func decimal(value string) (float64, bool) {
	for _, c := range value {
		if (c < '0' || c > '9') && c != '.' {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil || math.IsInf(n, 1) // more digits than a float64 holds
}

// times is n units, or the longest duration there is.
func times(n float64, unit time.Duration) time.Duration {
	d := math.Round(n * float64(unit))
	if d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}
