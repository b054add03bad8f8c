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

	virtual bool
	lasts   time.Duration
	began   time.Time
}

// To shows progress. If time is virtual, it tells how long the rest takes from
// how long it has taken.
func To(w io.Writer, virtual bool) *Progress { return &Progress{w: w, virtual: virtual} }

// Of says which of how many scenarios comes next.
func (p *Progress) Of(number, all int) {
	if all > 1 {
		p.pos = fmt.Sprintf("%d/%d ", number, all)
	}
}

// Say says what is being done, where it is not known for how long.
func (p *Progress) Say(what string) { fmt.Fprintln(p.w, p.pos+what) }

// Begin says what comes next.
func (p *Progress) Begin(what string, lasts time.Duration) {
	p.what, p.next = p.pos+what, lasts-between
	p.lasts, p.began = lasts, time.Now()
	to := "to go"
	if p.virtual {
		to = "of virtual time"
	}
	fmt.Fprintf(p.w, "%s: %v %s\n", p.what, lasts.Round(time.Second), to)
}

// Update says how far it is.
func (p *Progress) Update(left time.Duration, grants int) {
	left = max(left, 0)
	done := p.lasts - left
	switch {
	case p.virtual && done > 0:
		rest := time.Duration(float64(time.Since(p.began)) * float64(left) / float64(done))
		fmt.Fprintf(p.w, "%s: %.0f %% simulated, %d grants so far, about %v to go\n",
			p.what, 100*float64(done)/float64(p.lasts), grants, rest.Round(time.Second))
	case !p.virtual && left <= p.next:
		p.next -= between
		fmt.Fprintf(p.w, "%s: %.0f s left, %d grants so far\n", p.what, math.Ceil(left.Seconds()), grants)
	}
}
