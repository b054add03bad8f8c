package picture

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/fair"
)

// columns cut time into pieces that stay where they are from one picture to the
// next, as long as their length does.
type columns struct{ start, step time.Duration }

// columnsOf shows all that is ahead if it is less than half an hour.
func columnsOf(s *fair.State) columns {
	step := 1000 * time.Second
	for _, ms := range []time.Duration{40_000, 20_000, 10_000, 4000, 2000, 1000, 400, 200, 100, 40} {
		if shorter := ms * time.Millisecond; (Ahead-1)*shorter >= max(s.Tail, s.Next, s.Paused) {
			step = shorter
		}
	}
	return columns{-Back*step - time.Duration(s.At.UnixNano()%int64(step)), step}
}

func (c columns) line(s *fair.State) Line {
	line := Line{Start: milliseconds(c.start), Step: milliseconds(c.step), Used: c.used(s.Windows, s.Granted)}
	from := c.start
	for range Back + Ahead {
		line.Permits = append(line.Permits, s.Granted(from, from+c.step))
		from += c.step
	}
	line.Beyond = max(0, s.Granted(from, s.Tail))
	return line
}

// used is how full the scarcest window is that ends with each column.
func (c columns) used(windows []fair.Window, granted func(from, to time.Duration) int64) []float64 {
	all, end := make([]float64, Back+Ahead), c.start
	for i := range all {
		end += c.step
		for _, w := range windows {
			all[i] = max(all[i], min(1, float64(granted(end-w.Per, end))/float64(w.Permits)))
		}
	}
	return all
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

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
	for i, f := range q.Flows {
		if f.Newest > 0 {
			draw(f.Newest, 'a'+rune(i%26))
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
