package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

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

// permits is a number of them.
func permits(n int64) string {
	if n == 1 {
		return "1 permit"
	}
	return strconv.FormatInt(n, 10) + " permits"
}

// positive reads a duration that is more than 0.
func positive(text string) (time.Duration, error) {
	d, err := quotatext.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("want more than 0")
	}
	return d, err
}

// width is that of a terminal for which output is made.
const width = 80

// printable is a name as it can be shown on any terminal: one that could be
// taken for several words, or that moves the cursor, is quoted as Go quotes.
func printable(name string) string {
	odd := func(r rune) bool { return r == unicode.ReplacementChar || r == '"' || r == ' ' || !unicode.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// fit cuts a text that takes more than so many columns.
func fit(text string, most int) string {
	if columns(text) <= most {
		return text
	}
	taken, at := 0, 0
	for i, r := range text {
		if taken += columnsOf(r); taken > most-1 {
			at = i
			break
		}
	}
	return text[:at] + "…"
}

func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// columnsOf takes two for any rune that could: the first wide ones are those of
// Hangul. The narrow ones among the rest only leave some room, but for those of
// which pictures are made.
func columnsOf(r rune) int {
	drawn := 0x2500 <= r && r <= 0x25ff
	if r >= 0x1100 && r != '…' && !drawn {
		return 2
	}
	return 1
}
