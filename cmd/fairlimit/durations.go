package main

import (
	"time"

	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// brief is a duration as a person reads it.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < time.Minute:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return quotatext.Duration(d)
}

// duration reads one that is more than 0.
func duration(command, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, misused("%s: %s is no duration, such as 30s, 5m or 1h30m", command, fit(printable(text), 40))
	}
	if d <= 0 {
		return 0, misused("%s: %s is not more than 0", command, fit(printable(text), 40))
	}
	return d, nil
}
