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

	// Server is the server's time at the answer, in microseconds: of two answers
	// from different queues the later one counts. At 0 the later question does.
	Server int64

	// Queue is the ID of the grants of this queue, and empty if there is none.
	// Grants of another ID are void if Reset is true. If it is false, they were
	// lost: their turns come when their callers were told.
	Queue string
	Reset bool

	// Lost says that the queue had lost turns that this limiter knew of, and
	// counts them again.
	Lost bool

	// Differs says that the caller before asked under other quotas, or with
	// another guard. Stored quotas that have changed do not differ.
	Differs bool

	Clock  int64         // the queue's clock at the answer
	Stands time.Duration // for how much longer it stands still

	// Slow are the stretches in which the clock runs slower, one behind the
	// other. Late is how many real microseconds ago the clock reached Clock.
	Slow []Stretch
	Late int64
}

// Stretch is a stretch of the queue's clock, from the one before or from now on
// up to the moment Until. A million of its microseconds last Pace real ones.
type Stretch struct {
	Until, Pace int64
}

// IsSlow is false where others than the newest quotas hold, and nothing is slower.
func (s Stretch) IsSlow() bool { return s.Pace > 1_000_000 }

// SlowUntil is the moment from which the clock runs as a real one: 0 if it does.
func (n *News) SlowUntil() int64 {
	if len(n.Slow) == 0 {
		return 0
	}
	return n.Slow[len(n.Slow)-1].Until
}

// Until is how long after the answer the queue's clock reaches the moment at.
func (n *News) Until(at int64) time.Duration {
	if at <= n.Clock {
		return n.Stands
	}
	return n.Stands + time.Duration(n.Real(at)-n.Real(n.Clock)-n.Late)*time.Microsecond
}

// Comes is when the queue's clock reaches the moment at, in microseconds of the
// server's clock. Two answers of one server that differ in it have seen a
// pause, a narrower quota or a clock that was set back between them. If they do
// not, nothing has put the moment off, however long they were on their way.
func (n *News) Comes(at int64) int64 {
	if at < n.Clock && n.Stands == 0 {
		return n.Server - n.Passed(at).Microseconds()
	}
	return n.Server + n.Until(at).Microseconds()
}

// Passed is for how long the queue's clock has run since the moment at, 0 if it
// has not come. Where the clock was slow, and does not tell that any more, it
// was longer.
func (n *News) Passed(at int64) time.Duration {
	if at >= n.Clock {
		return 0
	}
	return time.Duration(n.Real(n.Clock)-n.Real(at)+n.Late) * time.Microsecond
}

// Real tells when the clock reaches the moment at, in real microseconds: the
// clock's own where it is slow no more.
func (n *News) Real(at int64) int64 {
	moment := at
	for _, s := range n.Slow {
		if length := s.Until - at; length > 0 {
			moment += length - int64(math.Floor(float64(length)*float64(s.Pace)/1e6))
			at = s.Until
		}
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
