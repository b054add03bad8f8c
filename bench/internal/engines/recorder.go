package engines

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
	"github.com/fairlimit/fairlimit/engine"
)

// recorder is a limiter of this library whose callers call Wait, as users do,
// and which notes on the side what the engine told each of them.
//
// The limiter puts the questions of many callers into one, so the recorder must
// know a caller by its request. Each caller's ctx has a deadline that no
// other's has: its own, or one weeks ahead. The limiter turns it into the
// request's MaxWait. The ctx of the question is that of its first caller.
// Together they tell who asks. The engine then gets the question that it would
// get without the recorder.
type recorder struct {
	limiter fairlimit.Limiter
	notes   *notes
}

func record(
	build engine.Builder, rdb redis.UniversalClient, name string, l load.Load, now func() time.Duration,
	opts ...fairlimit.Option,
) (Acquirer, error) {
	notes := &notes{began: time.Now(), now: now, callers: map[time.Duration]int{}, turns: map[int]*metrics.Turn{}}
	opts = append(opts, fairlimit.WithEngine(func(c engine.Config) (engine.Engine, error) {
		e, err := build(c)
		if err != nil {
			return nil, err
		}
		return &noted{Engine: e, notes: notes}, nil
	}))
	limiter, err := fairlimit.New(rdb, name, fairlimit.Quota(l.Quota), opts...)
	if err != nil {
		return nil, err
	}
	return &recorder{limiter: limiter, notes: notes}, nil
}

func (r *recorder) Acquire(ctx context.Context, caller, n int) (*metrics.Turn, error) {
	deadline, impatient := ctx.Deadline()
	tag := nameTag{Context: ctx, at: r.notes.enter(caller, deadline, impatient)}
	err := r.limiter.WaitN(tag, n)
	return r.notes.leave(caller, tag.at), err
}

// nameTag is a ctx with a deadline that tells who asks. It has no timer of its
// own, only that of the ctx under it.
type nameTag struct {
	context.Context
	at time.Time
}

func (t nameTag) Deadline() (time.Time, bool) { return t.at, true }

// tagged is the key under which a nameTag's ctx holds its deadline.
type tagged struct{}

func (t nameTag) Value(key any) any {
	if key == (tagged{}) {
		return t.at
	}
	return t.Context.Value(key)
}

// ahead is how far ahead the deadline of a caller without one lies.
const ahead = 1000 * time.Hour

// notes are who asks, and the turns that callers were told and have not yet
// taken.
type notes struct {
	began time.Time
	now   func() time.Duration

	mu      sync.Mutex
	callers map[time.Duration]int // by their deadlines, counted from began
	turns   map[int]*metrics.Turn
}

// enter gives a caller a deadline that nobody else has.
func (n *notes) enter(caller int, deadline time.Time, impatient bool) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := ahead
	if impatient {
		at = deadline.Sub(n.began)
	}
	for {
		if _, taken := n.callers[at]; !taken {
			n.callers[at] = caller
			return n.began.Add(at)
		}
		at++
	}
}

// leave takes what the caller was told.
func (n *notes) leave(caller int, deadline time.Time) *metrics.Turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.callers, deadline.Sub(n.began))
	turn := n.turns[caller]
	delete(n.turns, caller)
	return turn
}

// nobody asks without a name tag.
const nobody = -1

// read says who asks, and returns the requests as they are without name tags.
// All MaxWaits of a question are counted from one moment, which the first
// caller's tag tells.
func (n *notes) read(ctx context.Context, requests []engine.Request) (plain []engine.Request, callers []int) {
	first, _ := ctx.Value(tagged{}).(time.Time)
	moment := first.Sub(n.began) - requests[0].MaxWait
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range requests {
		caller, known := n.callers[moment+r.MaxWait]
		if !known {
			caller = nobody
		}
		if moment+r.MaxWait >= ahead/2 {
			r.MaxWait = engine.Forever
		}
		plain, callers = append(plain, r), append(callers, caller)
	}
	return plain, callers
}

func (n *notes) put(caller int, turn metrics.Turn) {
	if caller == nobody {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns[caller] = &turn
}

// noted is an engine whose grants are noted.
type noted struct {
	engine.Engine
	notes *notes
}

func (e *noted) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	plain, callers := e.notes.read(ctx, requests)
	sent := e.notes.now()
	answers, err := e.Engine.Take(ctx, plain)
	replied := e.notes.now()
	for i, a := range answers {
		if a.Granted {
			e.notes.put(callers[i], metrics.Turn{Sent: sent, Replied: replied, Wait: a.Wait})
		}
	}
	delay(ctx, answers, callers)
	return answers, err
}
