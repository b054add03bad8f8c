package run

import (
	"context"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

const (
	// sleepers is how many sleep side by side: one may be woken while another
	// waits for a processor.
	sleepers = 2

	// nap is how long each of them sleeps, in a run of a few processes.
	nap = 5 * time.Millisecond

	// few is how many processes may watch as closely as that. More of them
	// sleep longer, so that the machine is not busy with watching.
	few = 8

	// least is the lateness that is worth noting.
	least = 3 * time.Millisecond
)

// Bystander watches what the machine does to a process while others work in it:
// how late its plain sleeps end, or how long a server takes that is asked for
// nothing. It knows no limiter, so what it sees is nobody's doing but the
// machine's.
type Bystander struct {
	now    func() time.Duration
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	seen []measure.Stall
}

// Watch begins, in one of so many processes. If ping is not nil, it asks a
// server for nothing, and the server is what is watched. Close ends it.
func Watch(now func() time.Duration, processes int, ping func(context.Context)) *Bystander {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bystander{now: now, cancel: cancel}
	pause := nap * time.Duration(max(1, processes/few))
	if ping != nil {
		b.all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				b.watch(now(), func() { ping(ctx) })
			}
		})
		return b
	}
	for range sleepers {
		b.all.Go(func() {
			for ctx.Err() == nil {
				b.watch(now()+pause, func() { time.Sleep(pause) })
			}
		})
	}
	return b
}

// watch notes a stall if what is done ends late, by when it is due.
func (b *Bystander) watch(due time.Duration, do func()) {
	do()
	if ended := b.now(); ended-due >= least {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, measure.Stall{From: due, To: ended})
	}
}

// Close ends the watch, and returns the stalls that were noted.
func (b *Bystander) Close() []measure.Stall {
	b.cancel()
	b.all.Wait()
	return b.seen
}
