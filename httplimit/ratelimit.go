package httplimit

import (
	"strings"
	"time"
)

// exhaustedItems reads the header RateLimit: the longest time after which an
// item that has nothing left has something again. Two generations of the draft
// are in use:
//
//	"default";r=0;t=30, "day";r=4000;t=43000
//	limit=100, remaining=0, reset=30
//
// See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers.
func exhaustedItems(values []string) (longest time.Duration, ok bool) {
	dictionary := map[string]string{}
	for _, item := range split(strings.Join(values, ","), ',') {
		parts := split(item, ';')
		if pause, exhausted := exhaustedFor(parameters(parts[1:]), "r", "t"); exhausted {
			longest, ok = max(longest, pause), true
		}
		if key, value, member := strings.Cut(parts[0], "="); member {
			dictionary[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	if pause, exhausted := exhaustedFor(dictionary, "remaining", "reset"); exhausted {
		longest, ok = max(longest, pause), true
	}
	return longest, ok
}

// exhaustedFor is the number of seconds under the key reset, if there is one
// and the number under the key remaining is 0.
func exhaustedFor(fields map[string]string, remaining, reset string) (time.Duration, bool) {
	left, ok := decimal(fields[remaining])
	if !ok || left > 0 {
		return 0, false
	}
	seconds, ok := decimal(fields[reset])
	return times(seconds, time.Second), ok
}

func parameters(parts []string) map[string]string {
	fields := map[string]string{}
	for _, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		fields[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return fields
}

// split cuts at separators that are not inside a quoted string. It returns at
// least one part.
func split(value string, separator byte) (parts []string) {
	quoted, start := false, 0
	for i := 0; i < len(value); i++ {
		switch {
		case quoted && value[i] == '\\':
			i++
		case value[i] == '"':
			quoted = !quoted
		case !quoted && value[i] == separator:
			parts = append(parts, value[start:i])
			start = i + 1
		}
	}
	return append(parts, value[start:])
}
