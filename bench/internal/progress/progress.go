// Package progress shows that a run is alive: one line that changes on a
// terminal, a line now and then elsewhere.
package progress

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/term"
)

// between two lines where they stay.
const between = 5 * time.Second

// Progress shows one run after the other.
type Progress struct {
	w    io.Writer
	live bool
	what string
	pos  string        // which of how many
	next time.Duration // the next plain line is due when this much is left
}

// On shows progress on f, live if f is a terminal.
func On(f *os.File) *Progress { return &Progress{w: f, live: term.IsTerminal(int(f.Fd()))} }

// To shows progress in plain lines.
func To(w io.Writer) *Progress { return &Progress{w: w} }

// Of says which of how many scenarios comes next.
func (p *Progress) Of(number, all int) {
	p.pos = ""
	if all > 1 {
		p.pos = fmt.Sprintf("%d/%d ", number, all)
	}
}

// Begin says what comes next.
func (p *Progress) Begin(what string, lasts time.Duration) {
	p.what, p.next = p.pos+what, lasts-between
	p.show(fmt.Sprintf("%s: %v to go", p.what, lasts.Round(time.Second)))
}

// Update says how far it is.
func (p *Progress) Update(left time.Duration, grants int) {
	left = max(left, 0)
	if !p.live && left > p.next {
		return
	}
	p.next -= between
	p.show(fmt.Sprintf("%s: %.0f s left, %d grants so far", p.what, math.Ceil(left.Seconds()), grants))
}

// End leaves the screen to what follows.
func (p *Progress) End() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *Progress) show(line string) {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K", line)
		return
	}
	fmt.Fprintln(p.w, line)
}
