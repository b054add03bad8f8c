package run

import (
	"fmt"
	"io"
	"math"
	"time"
)

// between two lines of a run.
const between = 5 * time.Second

// Progress shows that a run is alive, by a line now and then.
type Progress struct {
	w    io.Writer
	what string
	pos  string        // which of how many
	next time.Duration // the next line is due when this much is left
}

// To shows progress.
func To(w io.Writer) *Progress { return &Progress{w: w} }

// Of says which of how many scenarios comes next.
func (p *Progress) Of(number, all int) {
	if all > 1 {
		p.pos = fmt.Sprintf("%d/%d ", number, all)
	}
}

// What is the run that it is about.
func (p *Progress) What() string { return p.what }

// Begin says what comes next.
func (p *Progress) Begin(what string, lasts time.Duration) {
	p.what, p.next = p.pos+what, lasts-between
	fmt.Fprintf(p.w, "%s: %v to go\n", p.what, lasts.Round(time.Second))
}

// Update says how far it is.
func (p *Progress) Update(left time.Duration, grants int) {
	if left = max(left, 0); left <= p.next {
		p.next -= between
		fmt.Fprintf(p.w, "%s: %.0f s left, %d grants so far\n", p.what, math.Ceil(left.Seconds()), grants)
	}
}
