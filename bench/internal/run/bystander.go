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

	// nap is how long each of them sleeps, for each client: many sleep longer, so
	// that the machine is not busy with watching.
	nap = time.Millisecond

	// least is the lateness that is worth noting.
	least = 3 * time.Millisecond
)

// Bystander watches what the machine does to a process while others work in it:
// how late its plain sleeps end, and how long a server takes that is asked for
// nothing. It knows no limiter, so what it sees is nobody's doing but the
// machine's.
type Bystander struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	seen []measure.Stall
}

// Watch begins, in one of so many processes. Ping, if not nil, asks the server.
// Close ends it.
func Watch(processes int, ping func(context.Context)) *Bystander {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bystander{cancel: cancel}
	pause := nap * time.Duration(max(4, processes))
	for range sleepers {
		b.all.Go(func() {
			for ctx.Err() == nil {
				due := measure.Now() + pause
				time.Sleep(pause)
				b.note(due)
			}
		})
	}
	if ping != nil {
		b.all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				due := measure.Now()
				ping(ctx)
				b.note(due)
			}
		})
	}
	return b
}

// note writes down a stall if what was due is late.
func (b *Bystander) note(due time.Duration) {
	if now := measure.Now(); now-due >= least {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, measure.Stall{From: due, To: now})
	}
}

// Close ends the watch, and returns the stalls that were noted.
func (b *Bystander) Close() []measure.Stall {
	b.cancel()
	b.all.Wait()
	return b.seen
}
