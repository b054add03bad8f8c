package httplimit

import (
	"net/http"
	"regexp"
	"strings"
	"time"
)

// RetryAfter reads how long the upstream wants to be left alone. It looks only
// at the header, not at the status. The first of these that can be read counts:
//
//   - Retry-After. Other headers with this in their name count as well, such as
//     X-Retry-After, X-Rate-Limit-Retry-After-Seconds and Retry-After-Login, and
//     so does X-Retry-In. One in milliseconds comes first: Retry-After-Ms or
//     X-Ms-Retry-After-Ms. Those of any other name come last.
//   - RateLimit, as in draft-ietf-httpapi-ratelimit-headers: the longest t of
//     the items with r=0. In older drafts: reset, if remaining=0.
//   - RateLimit-Reset, and any other header with "limit" and "reset" in its name:
//     X-Rate-Limit-Reset, X-RateLimit-Reset-After, X-RateLimit-Reset-Tokens,
//     Anthropic-RateLimit-Requests-Reset, RateLimit-ResetTime and so on. It does
//     not count if the same name with "Remaining" says that something is left. If
//     one of these says that nothing is left, only such headers count. Of several
//     the longest counts.
//
// Each of them may be
//
//   - a number of seconds, or of milliseconds if the name ends in Ms,
//     Milliseconds or is KuCoin's Gw-RateLimit-Reset. It may have a fraction;
//   - a number from 10⁹ on: seconds, milliseconds, micro- or nanoseconds since
//     1970, by its size;
//   - a duration such as 1m30s, 20ms or 7.66s;
//   - a date as in HTTP, RFC 1123, RFC 850, RFC 3339, ANSI C, JavaScript or SQL,
//     with GMT, UTC, Z, a numeric zone, or without a zone, which is UTC.
//
// A time is compared with the Date of the same response, so that the client's
// clock does not matter. Without a Date it is compared with received, when the
// response arrived.
//
// A time that has passed is a pause of 0. A negative number, a zone of another
// name and any other text count as absent. A time too long for a [time.Duration]
// is the longest one. A response with an Age above 0 comes from a cache and was
// meant for somebody else: ok is false.
func RetryAfter(resp *http.Response, received time.Time) (pause time.Duration, ok bool) {
	if cached(resp.Header) {
		return 0, false
	}
	now := received
	if date, ok := date(resp.Header.Get("Date")); ok {
		now = date
	}
	pause = first(delay(resp.Header, now), exhaustedItems(resp.Header.Values("RateLimit")), reset(resp.Header, now))
	return max(0, pause), pause != unread
}

func cached(header http.Header) bool {
	age, ok := decimal(header.Get("Age"))
	return ok && age > 0
}

// Ranks of headers that speak of nothing but a delay. The first counts.
const (
	fineDelay  = iota // in milliseconds
	usualDelay        // Retry-After
	otherDelay
	notDelay
)

func rank(name string) int {
	name = strings.ToLower(name)
	switch {
	case !strings.Contains(name, "retry-after") && name != "x-retry-in":
		return notDelay
	case unitOf(name) == time.Millisecond:
		return fineDelay
	case name == "retry-after":
		return usualDelay
	}
	return otherDelay
}

// delay reads the headers that speak of nothing but a delay.
func delay(header http.Header, now time.Time) time.Duration {
	longest := [notDelay]time.Duration{unread, unread, unread} // by rank
	for name, values := range header {
		if r := rank(name); r != notDelay {
			longest[r] = max(longest[r], longestOf(values, unitOf(name), now))
		}
	}
	return first(longest[:]...)
}

// reset reads the headers that say when a quota is full again. They are also
// sent with responses that were not refused.
func reset(header http.Header, now time.Time) time.Duration {
	usedUp, untold := unread, unread // by whether something is known to be left
	for name, values := range header {
		remaining, isReset := remainingOf(name)
		if !isReset {
			continue
		}
		pause := longestOf(values, unitOf(name), now)
		if left, told := leftOf(header.Get(remaining)); !told {
			untold = max(untold, pause)
		} else if left == 0 {
			usedUp = max(usedUp, pause)
		}
	}
	return first(usedUp, untold)
}

// first is the first time that could be read.
func first(times ...time.Duration) time.Duration {
	for _, t := range times {
		if t != unread {
			return t
		}
	}
	return unread
}

func longestOf(values []string, unit time.Duration, now time.Time) time.Duration {
	longest := unread
	for _, value := range values {
		longest = max(longest, readTime(strings.TrimSpace(value), unit, now))
	}
	return longest
}

// form is what stands behind "reset" in a name that tells the form of its value.
var form = regexp.MustCompile(`(-?(after|at|in|time|timestamp|seconds|ms|milliseconds))+$`)

// remainingOf is the name of the header that says what is left of the quota
// whose reset the header of this name tells.
func remainingOf(name string) (remaining string, isReset bool) {
	name = strings.ToLower(name)
	of, unit, isReset := strings.Cut(name, "reset")
	return of + "remaining" + form.ReplaceAllString(unit, ""), isReset && strings.Contains(name, "limit")
}

// leftOf reads what is left of a quota, which may have parameters: 0;w=3600.
func leftOf(value string) (float64, bool) {
	value, _, _ = strings.Cut(value, ";")
	return decimal(strings.TrimSpace(value))
}

// unitOf is the unit of a number in the header.
func unitOf(name string) time.Duration {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "-ms") || strings.HasSuffix(name, "-milliseconds") || name == "gw-ratelimit-reset" {
		return time.Millisecond
	}
	return time.Second
}

// hasDelay reports whether a header is there that speaks of nothing but a delay.
func hasDelay(header http.Header) bool {
	for name := range header {
		if rank(name) != notDelay {
			return true
		}
	}
	return false
}

// exhausted reports whether the header says that nothing of a quota is left.
func exhausted(header http.Header) bool {
	for name := range header {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "limit") && strings.Contains(lower, "remaining") {
			if left, ok := leftOf(header.Get(name)); ok && left == 0 {
				return true
			}
		}
	}
	return exhaustedItems(header.Values("RateLimit")) != unread
}
