// Package bystander watches what the machine does to a process while others
// work in it: how late its plain sleeps end, or how long a server takes that is
// asked for nothing. It knows no limiter, so what it sees is nobody's doing but
// the machine's.
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

// Bystander is the sleepers of one process.
type Bystander struct {
	now    func() time.Duration
	nap    time.Duration
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	seen []measure.Stall // and not yet told
}

// Watch begins, in one of so many processes. Close ends it.
func Watch(now func() time.Duration, processes int) *Bystander {
	return begin(now, processes, sleepers, (*Bystander).sleep)
}

// Ask watches a server, while so many processes work with it: ping asks it for
// nothing. Close ends it.
func Ask(now func() time.Duration, processes int, ping func(context.Context)) *Bystander {
	return begin(now, processes, 1, func(b *Bystander, ctx context.Context) { b.ask(ctx, ping) })
}

func begin(now func() time.Duration, processes, how int, watch func(*Bystander, context.Context)) *Bystander {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bystander{now: now, nap: nap * time.Duration(max(1, processes/few)), cancel: cancel}
	for range how {
		b.all.Go(func() { watch(b, ctx) })
	}
	return b
}

// Seen are the stalls that were noted since it was last asked.
func (b *Bystander) Seen() []measure.Stall {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen
	b.seen = nil
	return seen
}

// Close ends the watch. What was seen can still be asked for.
func (b *Bystander) Close() {
	b.cancel()
	b.all.Wait()
}

func (b *Bystander) sleep(ctx context.Context) {
	for ctx.Err() == nil {
		due := b.now() + b.nap
		time.Sleep(b.nap)
		if woke := b.now(); woke-due >= least {
			b.note(measure.Stall{From: due, To: woke})
		}
	}
}

func (b *Bystander) ask(ctx context.Context, ping func(context.Context)) {
	for ctx.Err() == nil {
		asked := b.now()
		ping(ctx)
		if told := b.now(); told-asked >= least {
			b.note(measure.Stall{From: asked, To: told})
		}
		time.Sleep(b.nap)
	}
}

func (b *Bystander) note(s measure.Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, s)
}
