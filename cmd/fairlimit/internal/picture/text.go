package picture

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Text is the line for a terminal, in rows of at most 80 columns. Without further
// units there is one row of what is used:
//
//	line  ●●●─●●|●●●─●●●●●●─●○○○○○  +38
//	used  ▅▆▇▇██|█████████████▇▆▅▃▂ calls
//	used  ▁▁▁▁▁▁|▁▁▁▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁ tokens
//	      a column is 40ms: ...
func (q *Queue) Text() string {
	var b strings.Builder
	row := func(what string, columns []rune, more string) {
		fmt.Fprintf(&b, "  %-5s %s|%s%.7s\n", what, string(columns[:Back]), string(columns[Back:]), more)
	}
	beyond := ""
	if q.Line.Beyond > 99_999 {
		beyond = " +many"
	} else if q.Line.Beyond > 0 {
		beyond = " +" + strconv.FormatInt(q.Line.Beyond, 10)
	}
	row("line", q.turns(), beyond)
	row("used", bars(q.Line.Used), " calls")
	for _, u := range q.Units {
		row("used", bars(u.Used), " "+u.Name)
	}
	fmt.Fprintf(&b, "        a column is %v: ● granted, ○ free, ┊ paused\n", time.Duration(q.Line.Step*1e6))
	return b.String()
}

// turns are the columns of the line. What comes later is drawn over what comes
// before.
func (q *Queue) turns() []rune {
	l := &q.Line
	columns := []rune(strings.Repeat("─", Back+Ahead))
	draw := func(at float64, mark rune) {
		if i := int(math.Ceil((at-l.Start)/l.Step)) - 1; i >= 0 && i < len(columns) {
			columns[i] = mark
		}
	}
	for at := l.Step; at <= q.Paused && at <= Ahead*l.Step; at += l.Step {
		draw(at, '┊')
	}
	spacing := l.Step // how far permits are apart if all are used
	for _, w := range q.Windows {
		spacing = max(spacing, w.Per/float64(w.Permits))
	}
	for at := q.Next; len(q.Windows) > 0 && at <= Ahead*l.Step; at += spacing {
		draw(at, '○')
	}
	for i, permits := range l.Permits {
		if permits > 0 {
			columns[i] = '●'
		}
	}
	return columns
}

func bars(shares []float64) []rune {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	columns := make([]rune, len(shares))
	for i, used := range shares {
		columns[i] = levels[int(math.Ceil(used*8))]
	}
	return columns
}
