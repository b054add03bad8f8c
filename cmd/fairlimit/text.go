package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// brief is a duration as a person reads it.
func brief(d time.Duration) string {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	} else if d < time.Minute {
		unit = 10 * time.Millisecond
	}
	return quotatext.Duration(d.Round(unit))
}

// in is brief of milliseconds.
func in(ms float64) string { return brief(time.Duration(ms * 1e6)) }

// permits is a number of them.
func permits(n int64) string {
	if n == 1 {
		return "1 permit"
	}
	return fmt.Sprintf("%d permits", n)
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
	taken, cut := 0, 0
	for i, r := range text {
		if taken < most {
			cut = i // there is room for an ellipsis
		}
		if taken += columnsOf(r); taken > most {
			return text[:cut] + "…"
		}
	}
	return text
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
