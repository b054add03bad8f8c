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

// recorder is a limiter of this library whose callers call Wait, as users do, and which notes on the side what the engine told each of them.
//
// The limiter puts the questions of many callers into one, so the recorder must know a caller by its request. A caller's ctx has a deadline
// that no other's has, weeks ahead; the limiter makes the request's MaxWait of it, and notes reads it back. The engine is then asked
// what a caller without a deadline asks, so that it does exactly what it does for a user.
type recorder struct {
	limiter fairlimit.Limiter
	notes   *notes
}

func record(
	build engine.Builder, rdb redis.UniversalClient, name string, l load.Load, now func() time.Duration, opts ...fairlimit.Option,
) (Acquirer, error) {
	notes := &notes{began: time.Now(), now: now, turns: map[int]*metrics.Turn{}}
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
	if _, own := ctx.Deadline(); !own {
		ctx = nameTag{ctx, r.notes.deadline(caller)}
	}
	err := r.limiter.WaitN(ctx, n)
	return r.notes.take(caller), err
}

// nameTag is a ctx with a deadline that tells who asks. No timer stands behind it.
type nameTag struct {
	context.Context
	at time.Time
}

func (t nameTag) Deadline() (time.Time, bool) { return t.at, true }

// The deadlines lie this far ahead and apart. Working out MaxWait and reading it back may lie half of apart from each other.
const (
	ahead = 1000 * time.Hour
	apart = time.Second
)

// notes are the turns that callers were told and have not yet taken.
type notes struct {
	began time.Time
	now   func() time.Duration

	mu    sync.Mutex
	turns map[int]*metrics.Turn
}

func (n *notes) deadline(caller int) time.Time {
	return n.began.Add(ahead + time.Duration(caller)*apart)
}

// nobody asks without a name tag.
const nobody = -1

// read takes the name tags off the requests.
func (n *notes) read(requests []engine.Request) (plain []engine.Request, callers []int) {
	since := time.Since(n.began)
	for _, r := range requests {
		caller := nobody
		if at := since + r.MaxWait - ahead + apart/2; r.MaxWait > ahead/2 && r.MaxWait < 2*ahead && at >= 0 {
			caller = int(at / apart)
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

func (n *notes) take(caller int) *metrics.Turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	turn := n.turns[caller]
	delete(n.turns, caller)
	return turn
}

// noted is an engine whose grants are noted.
type noted struct {
	engine.Engine
	notes *notes
}

func (e *noted) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	plain, callers := e.notes.read(requests)
	sent := e.notes.now()
	answers, err := e.Engine.Take(ctx, plain)
	replied := e.notes.now()
	for i, a := range answers {
		if a.Granted {
			e.notes.put(callers[i], metrics.Turn{Sent: sent, Replied: replied, Wait: a.Wait})
		}
	}
	return answers, err
}
