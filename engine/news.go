package engine

import (
	"context"
	"math"
	"time"
)

// News is what an answer says about the queue as a whole. A queueing engine
// passes it to [Config].Heard.
//
// The queue's clock counts microseconds, as [Grant].At does. It stands still
// while the queue is paused. It runs slower for a while after the quota became
// narrower: its microseconds then last longer than real ones.
type News struct {
	Asked   time.Time // when the question went: what it tells is not older
	Arrived time.Time // when the answer came

	// Queue is the ID of the grants of this queue, and empty if there is none.
	// Grants of another ID are void if Reset is true. If it is false, they were
	// lost. Those of the queue before stand later by Moves on this queue's clock.
	Queue string
	Reset bool
	Moves int64

	// Lost says that the queue had lost turns that this limiter knew of, and
	// counts them again.
	Lost bool

	// Differs says that the caller before asked under other quotas, or with
	// another guard. Stored quotas that have changed do not differ.
	Differs bool

	Clock  int64         // the queue's clock at the answer
	Stands time.Duration // for how much longer it stands still

	// SlowUntil is the moment up to which the clock runs slower, and 0 if it
	// does not. A million of its microseconds then last SlowPace real ones, and
	// from SlowUntil up to ThenUntil, if that is not 0, ThenPace. Late is how many
	// real microseconds ago the clock reached Clock.
	SlowUntil, SlowPace int64
	ThenUntil, ThenPace int64
	Late                int64
}

// Until is how long after the answer the queue's clock reaches the moment at.
func (n *News) Until(at int64) time.Duration {
	if at <= n.Clock {
		return n.Stands
	}
	return n.Stands + time.Duration(n.Real(at)-n.Real(n.Clock)-n.Late)*time.Microsecond
}

// Real tells when the clock reaches the moment at, in real microseconds: the
// clock's own where it is slow no more.
func (n *News) Real(at int64) int64 {
	slow := func(from, until, pace int64) int64 {
		return int64(math.Floor(float64(until-from) * float64(pace) / 1e6))
	}
	moment := max(at, n.SlowUntil)
	if moment < n.ThenUntil {
		moment = n.ThenUntil - slow(moment, n.ThenUntil, n.ThenPace)
	}
	if at < n.SlowUntil {
		moment -= slow(at, n.SlowUntil, n.SlowPace)
	}
	return moment
}

// Steerer is an [Engine] whose queue can be steered while turns are held.
type Steerer interface {
	Engine

	// Look asks for news, and restores what the limiter knows of and the server
	// lost. It costs less than any other question.
	Look(ctx context.Context) error

	// Pause lets the queue's clock stand still for d from now, or for longer if
	// it does already. The same pause may be sent twice.
	Pause(ctx context.Context, d time.Duration) error

	// Quotas returns the quotas that hold now, and whether they are the stored
	// ones: see [Config].Stored. Like Status it writes only what the engine
	// knows and the server has lost.
	Quotas(ctx context.Context) (quotas []Quota, stored bool, err error)

	// SetQuotas stores the quotas for all limiters of the name that look for
	// them. Without any it forgets the stored quotas. What the engine knows and
	// the server has lost is restored first.
	SetQuotas(ctx context.Context, quotas []Quota) error
}
