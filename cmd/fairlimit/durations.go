package main

import (
	"errors"
	"fmt"
	"strconv"
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
		return 0, misused("%s: %s: %v", command, fit(printable(text), 40), noDuration(text))
	}
	if d <= 0 {
		return 0, misused("%s: %s is not more than 0", command, fit(printable(text), 40))
	}
	return d, nil
}

// noDuration says what is wrong with a text that is no duration.
func noDuration(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("the unit is missing, as in %[1]sms or %[1]ss", fit(text, 20))
	}
	return errors.New("want a duration, such as 50ms, 30s or 1h30m")
}

// durationFlag is a flag for a duration.
type durationFlag time.Duration

func (f *durationFlag) String() string { return quotatext.Duration(time.Duration(*f)) }

func (f *durationFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return noDuration(text)
	}
	*f = durationFlag(d)
	return nil
}
