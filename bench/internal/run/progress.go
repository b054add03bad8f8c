// Package progress shows that a run is alive: one line that changes on a
// terminal, a line now and then elsewhere.
package run

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

	virtual bool
	lasts   time.Duration
	began   time.Time
}

// On shows progress on f, live if f is a terminal.
func On(f *os.File) *Progress { return &Progress{w: f, live: term.IsTerminal(int(f.Fd()))} }

// To shows progress in plain lines.
func To(w io.Writer) *Progress { return &Progress{w: w} }

// Virtual says that the time that is left is not that of a clock on the wall.
// How long that takes is told from how long it has taken.
func (p *Progress) Virtual() { p.virtual = true }

// Of says which of how many scenarios comes next.
func (p *Progress) Of(number, all int) {
	p.pos = ""
	if all > 1 {
		p.pos = fmt.Sprintf("%d/%d ", number, all)
	}
}

// Say says what is being done, where it is not known for how long.
func (p *Progress) Say(what string) { p.show(p.pos + what) }

// Begin says what comes next.
func (p *Progress) Begin(what string, lasts time.Duration) {
	p.what, p.next = p.pos+what, lasts-between
	p.lasts, p.began = lasts, time.Now()
	if p.virtual {
		p.show(fmt.Sprintf("%s: %v of virtual time", p.what, lasts.Round(time.Second)))
		return
	}
	p.show(fmt.Sprintf("%s: %v to go", p.what, lasts.Round(time.Second)))
}

// Update says how far it is.
func (p *Progress) Update(left time.Duration, grants int) {
	left = max(left, 0)
	if p.virtual {
		p.foresee(left, grants)
		return
	}
	if !p.live && left > p.next {
		return
	}
	p.next -= between
	p.show(fmt.Sprintf("%s: %.0f s left, %d grants so far", p.what, math.Ceil(left.Seconds()), grants))
}

// foresee says how long the rest will take if it takes as long as what is done.
func (p *Progress) foresee(left time.Duration, grants int) {
	done, took := p.lasts-left, time.Since(p.began)
	if done <= 0 {
		return
	}
	rest := time.Duration(float64(took) * float64(left) / float64(done)).Round(time.Second)
	p.show(fmt.Sprintf("%s: %.0f %% simulated, %d grants so far, about %v to go",
		p.what, 100*float64(done)/float64(p.lasts), grants, rest))
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
