package httplimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads how long the upstream wants to be left alone. The time
// counts from received, when the response arrived. It looks only at the header,
// not at the status. The first of these that can be read counts:
//
//   - Retry-After-Ms, X-Ms-Retry-After-Ms: milliseconds.
//   - Retry-After: seconds, with decimals rounded up, or an HTTP date.
//   - RateLimit, as in draft-ietf-httpapi-ratelimit-headers: the longest t of
//     the items with r=0. In older drafts: reset, if remaining=0.
//   - RateLimit-Reset, X-RateLimit-Reset: seconds from now, seconds or
//     milliseconds since 1970, an RFC 3339 or HTTP date, or a duration as in
//     6m0s. It does not count if the header RateLimit-Remaining, or
//     X-RateLimit-Remaining, says that requests remain.
//
// Dates are compared with the Date of the same response, so that the client's
// clock does not matter. Without a Date they are compared with received.
//
// A time that has passed is a pause of 0. A negative number, or text that
// cannot be read, counts as absent. A time too long for a [time.Duration] is
// the longest one. A response with an Age above 0 comes from a cache and was
// meant for somebody else: ok is false.
func RetryAfter(resp *http.Response, received time.Time) (pause time.Duration, ok bool) {
	if age, ok := decimal(resp.Header.Get("Age")); ok && age > 0 {
		return 0, false
	}
	now := received
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	if pause, ok := firstReadable(delayHeaders, resp.Header, now); ok {
		return pause, true
	}
	if pause, ok := exhaustedItems(resp.Header.Values("RateLimit")); ok {
		return pause, true
	}
	return firstReadable(resetHeaders, resp.Header, now)
}

// source is a header that may say how long to wait.
type source struct {
	name      string
	read      func(value string, now time.Time) (time.Duration, bool)
	remaining string // the header that says how much of the quota is left, if there is one
}

// Delay headers say nothing but how long to wait. Reset headers are also sent
// with responses that were not refused.
var (
	delayHeaders = []source{
		{name: "Retry-After-Ms", read: milliseconds},
		{name: "X-Ms-Retry-After-Ms", read: milliseconds},
		{name: "Retry-After", read: secondsOrDate},
	}
	resetHeaders = []source{
		{name: "RateLimit-Reset", read: readReset, remaining: "RateLimit-Remaining"},
		{name: "X-RateLimit-Reset", read: readReset, remaining: "X-RateLimit-Remaining"},
	}
)

// firstReadable is what the first source says that can be read. A source does not
// count if its quota has something left.
func firstReadable(sources []source, header http.Header, now time.Time) (time.Duration, bool) {
	for _, s := range sources {
		if left, ok := s.left(header); ok && left > 0 {
			continue
		}
		for _, value := range header.Values(s.name) {
			if pause, ok := s.read(strings.TrimSpace(value), now); ok {
				return pause, true
			}
		}
	}
	return 0, false
}

// left is how much of the quota is left, if the header says so.
func (s source) left(header http.Header) (float64, bool) {
	return decimal(strings.TrimSpace(header.Get(s.remaining)))
}

// hasDelay reports whether one of the headers is there that speak of nothing
// but a delay.
func hasDelay(header http.Header) bool {
	return slices.ContainsFunc(delayHeaders, func(s source) bool { return header.Get(s.name) != "" })
}

// exhausted reports whether the header says that nothing of a quota is left.
func exhausted(header http.Header) bool {
	_, ok := exhaustedItems(header.Values("RateLimit"))
	return ok || slices.ContainsFunc(resetHeaders, func(s source) bool {
		left, ok := s.left(header)
		return ok && left == 0
	})
}

func milliseconds(value string, _ time.Time) (time.Duration, bool) {
	ms, ok := decimal(value)
	return whole(ms, time.Millisecond), ok
}

func secondsOrDate(value string, now time.Time) (time.Duration, bool) {
	if s, ok := decimal(value); ok {
		return whole(s, time.Second), true
	}
	return date(value, now)
}

// Resets are told apart by their size. No delay lasts 30 years, and in
// milliseconds, 30 years after 1970 are more than 3,000 years in seconds.
const (
	earliestEpoch      = 1e9  // seconds: 2001
	earliestEpochMilli = 1e11 // milliseconds: 1973; in seconds, the year 5138
	latestEpochMilli   = 1e14 // milliseconds: the year 5138
)

func readReset(value string, now time.Time) (time.Duration, bool) {
	n, ok := decimal(value)
	switch {
	case !ok:
		return dateOrDuration(value, now)
	case n < earliestEpoch:
		return whole(n, time.Second), true
	case n < earliestEpochMilli:
		return until(time.UnixMilli(int64(math.Ceil(n*1000))), now), true
	case n < latestEpochMilli:
		return until(time.UnixMilli(int64(math.Ceil(n))), now), true
	}
	return 0, false
}

func dateOrDuration(value string, now time.Time) (time.Duration, bool) {
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return until(at, now), true
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return d, true
	}
	return date(value, now)
}

// date reads any of the three forms of an HTTP date.
func date(value string, now time.Time) (time.Duration, bool) {
	at, err := http.ParseTime(value)
	return until(at, now), err == nil
}

func until(at, now time.Time) time.Duration { return max(0, at.Sub(now)) }

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

// whole is n units, rounded up to a whole one, or the longest duration there
// is.
func whole(n float64, unit time.Duration) time.Duration {
	n = math.Ceil(n)
	if n >= float64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
