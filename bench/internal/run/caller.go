package run

import (
	"context"
	"errors"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// caller makes its calls and writes them down.
type caller struct {
	*crew
	run    context.Context // of the whole run
	number int
	me     scenario.Caller
	visit  Visitor

	// enter, in virtual time, gives each call a moment of its own, and its ctx a
	// name.
	enter func(context.Context) context.Context

	seq int
}

// begin lets it behave as the scenario says, until the run ends.
func (c *caller) begin() { c.scenario.Behave(c.run, c.me) }

// afterFailure is how long a caller pauses when the limiter could not be asked,
// so that an outage is not a busy loop.
const afterFailure = 50 * time.Millisecond

func (c *caller) call(ctx context.Context, n int, t *measure.Tokens) bool {
	if c.enter != nil {
		ctx = c.enter(ctx)
	}
	if c.run.Err() != nil {
		return false
	}
	call := measure.Call{Client: c.Client, Caller: c.number, Seq: c.seq, Permits: n, Called: c.now(), Tokens: t}
	c.seq++
	turn, settle, err := c.acquire(ctx, n, t)
	call.Ended, call.Turn, call.Outcome = c.now(), turn, outcome(c.run, ctx, err)
	if err == nil {
		// The permit is spent: the call is made even if the run has ended
		// meanwhile.
		call.Rejected, err = c.visit(context.WithoutCancel(ctx), call)
		if err == nil && t != nil && !call.Rejected {
			call.Tokens, err = c.write(ctx, *t, settle)
		}
		if err != nil {
			call.Outcome = measure.Failed
		}
	}
	if call.Outcome == measure.Failed {
		call.Error = err.Error()
		_ = clock.Sleep(c.run, afterFailure)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	return call.Outcome == measure.Granted && !call.Rejected
}

func (c *caller) acquire(
	ctx context.Context, n int, t *measure.Tokens,
) (turn *measure.Turn, settle engines.Settle, err error) {
	if t != nil {
		settle, err = c.limiter.(engines.Counter).Take(ctx, t.Input, t.Reserved)
		return nil, settle, err
	}
	turn, err = c.limiter.Acquire(ctx, n)
	return turn, nil, err
}

// write waits until all tokens are written, and settles. If the run ends before,
// nobody knows them.
func (c *caller) write(ctx context.Context, t measure.Tokens, settle engines.Settle) (*measure.Tokens, error) {
	if clock.Sleep(c.run, t.Takes) != nil || settle == nil {
		return &t, nil
	}
	if c.enter != nil {
		ctx = c.enter(ctx)
	}
	if c.run.Err() != nil {
		return &t, nil
	}
	err := settle(context.WithoutCancel(ctx), t.Output)
	t.Settled = c.now()
	return &t, err
}

// outcome is how a call with this ctx ended in a run that may have ended, too.
func outcome(run, ctx context.Context, err error) measure.Outcome {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return measure.Granted
	// The first was told so at once, the second found out by waiting.
	case errors.As(err, &refused), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return measure.Refused
	case run.Err() != nil:
		return measure.Waiting
	case ctx.Err() != nil:
		return measure.Left
	default:
		return measure.Failed
	}
}
