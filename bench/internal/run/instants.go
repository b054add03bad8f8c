package run

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// instants hands out moments so that no two events fall into one nanosecond:
// within one, they would happen in any order. Each kind of event that may
// happen to a caller has a slot of its own among the nanoseconds of a period:
// 30 µs for 10,000 callers.
//
// How long something takes follows from the seed, the slot and the moment at
// which it begins.
type instants struct {
	seed   uint64
	slots  int64 // in all, and nanoseconds in a period
	now    func() time.Duration
	before []int64 // slots that begin before those of each client
	at     []int64 // callers of each client
}

// kind is what may happen to a caller.
type kind int64

const (
	acts  kind = iota // calls, arrives upstream
	asks              // its question reaches Redis
	hears             // the answer is back
	wakes             // one of the process's timers goes off
	kinds
)

func newInstants(seed uint64, callers []int, now func() time.Duration) *instants {
	in := &instants{seed: seed, now: now}
	for _, n := range callers {
		in.before, in.at = append(in.before, in.slots), append(in.at, int64(n))
		in.slots += int64(n) * int64(kinds)
	}
	return in
}

// slot is the event's own nanosecond in each period.
func (in *instants) slot(client, caller int, k kind) int64 {
	return in.before[client] + in.at[client]*int64(k) + int64(caller)%in.at[client]
}

// next is the first moment after t that is the slot's.
func (in *instants) next(t time.Duration, slot int64) time.Duration {
	period := time.Duration(in.slots)
	at := t/period*period + time.Duration(slot)
	if at <= t {
		at += period
	}
	return at
}

// rand decides what begins now in a slot.
func (in *instants) rand(slot int64) *rand.Rand {
	return rand.New(rand.NewPCG(in.seed^uint64(slot)<<32, uint64(in.now())))
}

// sleep lets about so much time pass for a caller, as drawn, and wakes it in
// its own nanosecond.
func (in *instants) sleep(client, caller int, k kind, draw func(*rand.Rand) time.Duration) {
	slot, now := in.slot(client, caller, k), in.now()
	time.Sleep(in.next(now+draw(in.rand(slot)), slot) - now)
}

// lateness is by how much a client's timers are late. A caller has no more than
// one, so there are as many nanoseconds for them as callers.
func (in *instants) lateness(client int) func(wait time.Duration) time.Duration {
	var timers atomic.Int64
	return func(wait time.Duration) time.Duration {
		slot, due := in.slot(client, int(timers.Add(1)), wakes), in.now()+wait
		return in.next(due+timer(in.rand(slot)), slot) - due
	}
}

// The delays are those of machines in one data centre: a part that is always
// there and one that varies, exponentially, up to a bound. Together they spread
// over at most 6 ms.
const (
	wireLeast = 50 * time.Microsecond
	wireMean  = 100 * time.Microsecond
	timerMean = 200 * time.Microsecond
	bound     = 2 * time.Millisecond
)

// wire is one way over the network.
func wire(rng *rand.Rand) time.Duration { return wireLeast + varying(rng, wireMean) }

// timer is by how much a timer is late.
func timer(rng *rand.Rand) time.Duration { return varying(rng, timerMean) }

// none is no delay, apart from the wait for the event's own nanosecond.
func none(*rand.Rand) time.Duration { return 0 }

func varying(rng *rand.Rand, mean time.Duration) time.Duration {
	return min(bound, time.Duration(rng.ExpFloat64()*float64(mean)))
}
