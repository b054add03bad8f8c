package main

import (
	"errors"
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

// duration reads one.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("want a duration and its unit, such as 50ms, 30s or 1h30m")
	}
	return d, nil
}

// positive reads a duration that is more than 0.
func positive(text string) (time.Duration, error) {
	d, err := duration(text)
	if err == nil && d <= 0 {
		err = errors.New("want more than 0")
	}
	return d, err
}
