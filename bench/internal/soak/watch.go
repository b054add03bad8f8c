package soak

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// overdue is by how much a call may be late to come back.
const overdue = 50 * time.Millisecond

// bystander does what takes a leaving caller the longest. When a ctx ends, it
// waits for the word that its permits are back, which never comes. Before and
// after, it stands in line for a processor. If it is late, the machine is busy
// and makes callers late as well.
type bystander struct {
	over time.Time // zero if there is no end
	stop func() bool
	gone chan time.Time // holds one
}

// stay is how long a caller that leaves stays at most.
const stay = 25 * time.Millisecond

func watching(ctx context.Context, over time.Time) bystander {
	b := bystander{over: over, gone: make(chan time.Time, 1)}
	b.stop = context.AfterFunc(ctx, func() {
		runtime.Gosched()
		time.Sleep(stay)
		runtime.Gosched()
		b.gone <- time.Now()
	})
	return b
}

// watch knows which calls came back long after their ctx had ended, and when
// the machine itself stood still.
//
// Invariant, under mu: late and stalls only grow.
type watch struct {
	mu     sync.Mutex
	late   []lateness
	stalls []span
}

type span struct{ from, to time.Time }

type lateness struct {
	what string
	span
}

// back notes that a call is back.
func (w *watch) back(what string, b bystander) {
	now := time.Now()
	if b.stop() || b.over.IsZero() || now.Sub(b.over) <= overdue {
		return
	}
	if ended := (<-b.gone).Add(-stay); now.Sub(ended) > overdue {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = append(w.late, lateness{what, span{ended, now}})
	}
}

// beat sleeps for a moment again and again, and notes when it slept for longer.
func (w *watch) beat(ctx context.Context) {
	const moment = 2 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(moment)
		now := time.Now()
		if now.Sub(last) > 2*moment {
			w.mu.Lock()
			w.stalls = append(w.stalls, span{last.Add(moment), now})
			w.mu.Unlock()
		}
		last = now
	}
}

// stuck returns the calls that were late by too much, and by how much the worst
// was late. Times in which the machine stood still do not count.
func (w *watch) stuck() (calls []string, worst time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.late {
		late := l.to.Sub(l.from)
		for _, s := range w.stalls {
			late -= max(0, earlier(s.to, l.to).Sub(later(s.from, l.from)))
		}
		worst = max(worst, late)
		if late > overdue {
			late = late.Round(100 * time.Microsecond)
			calls = append(calls, fmt.Sprintf("%s came back %v after its ctx had ended", l.what, late))
		}
	}
	return calls, worst
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
