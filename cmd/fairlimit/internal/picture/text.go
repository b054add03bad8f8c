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
//	line  ●●●─●●|●●●─●●●a●●─●○○○○○  +38
//	used  ▅▆▇▇██|█████████████▇▆▅▃▂ calls
//	used  ▁▁▁▁▁▁|▁▁▁▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁ tokens
//	      a column is 40ms: ...
func (q *Queue) Text() string {
	var b strings.Builder
	row := func(what string, columns []rune, more string) {
		fmt.Fprintf(&b, "  %-5s %s|%s%s\n", what, string(columns[:Back]), string(columns[Back:]), more)
	}
	beyond := ""
	if q.Line.Beyond > 0 {
		beyond = fmt.Sprintf(" +%.6s", strconv.FormatInt(q.Line.Beyond, 10))
	}
	if len(beyond) > 7 {
		beyond = " +many"
	}
	row("line", q.turns(), beyond)
	calls := ""
	if len(q.Units) > 0 {
		calls = " calls"
	}
	row("used", bars(q.Line.Used), calls)
	for _, u := range q.Units {
		row("used", bars(u.Used), " "+short(u.Name))
	}
	step := time.Duration(q.Line.Step * 1e6)
	fmt.Fprintf(&b, "        a column is %v: ● granted, ○ free, ┊ paused, a the newest of a flow\n", step)
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
	for at := q.Next; q.spacing() > 0 && at <= Ahead*l.Step; at += max(q.spacing(), l.Step) {
		draw(at, '○')
	}
	for i, permits := range l.Permits {
		if permits > 0 {
			columns[i] = '●'
		}
	}
	for i, f := range q.Flows {
		if f.Newest > 0 {
			draw(f.Newest, 'a'+rune(i%26))
		}
	}
	return columns
}

// spacing is how far permits are apart if all are used, 0 if nobody knows.
func (q *Queue) spacing() (most float64) {
	for _, w := range q.Windows {
		most = max(most, w.Per/float64(w.Permits))
	}
	return most
}

func bars(shares []float64) []rune {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	columns := make([]rune, len(shares))
	for i, used := range shares {
		columns[i] = levels[int(math.Ceil(used*8))]
	}
	return columns
}

// short is the name of a unit in six columns. It has letters of one column only.
func short(name string) string {
	if len(name) > 6 {
		return name[:5] + "…"
	}
	return name
}
