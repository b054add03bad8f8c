package httplimit

import (
	"maps"
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
func exhaustedItems(values []string) time.Duration {
	longest, dictionary := unread, map[string]string{}
	for _, item := range split(strings.Join(values, ","), ',') {
		parts := split(item, ';')
		longest = max(longest, exhaustedFor(parameters(parts[1:]), "r", "t"))
		maps.Copy(dictionary, parameters(parts[:1]))
	}
	return max(longest, exhaustedFor(dictionary, "remaining", "reset"))
}

// exhaustedFor is the number of seconds under the key reset, if there is one
// and the number under the key remaining is 0.
func exhaustedFor(fields map[string]string, remaining, reset string) time.Duration {
	left, told := decimal(fields[remaining])
	seconds, timed := decimal(fields[reset])
	if !told || left > 0 || !timed {
		return unread
	}
	return times(seconds, time.Second)
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
