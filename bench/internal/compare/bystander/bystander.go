// Package bystander watches what the machine does to a process while others
// work in it: how late its plain sleeps end. It knows no limiter, so what it
// sees is nobody's doing but the machine's.
package bystander

import (
	"context"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/compare/metrics"
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
	seen []metrics.Stall // and not yet told
}

// Watch begins, in one of so many processes. Close ends it.
func Watch(now func() time.Duration, processes int) *Bystander {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bystander{now: now, nap: nap * time.Duration(max(1, processes/few)), cancel: cancel}
	for range sleepers {
		b.all.Go(func() { b.sleep(ctx) })
	}
	return b
}

// Seen are the stalls that were noted since it was last asked.
func (b *Bystander) Seen() []metrics.Stall {
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
			b.note(metrics.Stall{From: due, To: woke})
		}
	}
}

func (b *Bystander) note(s metrics.Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, s)
}
