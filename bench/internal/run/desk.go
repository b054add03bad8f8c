package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

// afterFailure is how long a caller pauses when the limiter could not be asked,
// so that an outage is not a busy loop.
const afterFailure = 50 * time.Millisecond

// desk is where one caller makes its calls, and where they are written down.
type desk struct {
	*crew
	run    context.Context // of the whole run
	number int
	seq    int
}

func (d *desk) call(ctx context.Context, n int) bool {
	c := measure.Call{Client: d.job.Client, Caller: d.number, Seq: d.seq, Permits: n, Called: measure.Now()}
	d.seq++
	turn, err := d.limiter.Acquire(ctx, d.number, n)
	c.Ended, c.Turn, c.Outcome = measure.Now(), turn, Outcome(d.run, ctx, err)
	if err == nil {
		// The permit is spent: the call is made even if the run has ended
		// meanwhile.
		var closed time.Duration
		closed, err = d.visitors[d.number].Visit(context.WithoutCancel(ctx), Arrival{
			Client: c.Client, Caller: c.Caller, Seq: c.Seq, Permits: n, Called: c.Called,
		})
		if err == nil && closed > 0 {
			err = d.closed(closed)
		}
		if err != nil {
			c.Outcome = measure.Failed
		}
	}
	if c.Outcome == measure.Failed {
		c.Error = err.Error()
		d.pause()
	}
	d.news.say(News{
		Call: &c, RedisCalls: d.meter.count(), Misses: engines.MissesOf(d.opened), Stalls: d.bystander.Seen(),
	})
	return c.Outcome == measure.Granted
}

// closed is what a caller does whom the upstream told when to come back.
func (d *desk) closed(left time.Duration) error {
	if err := d.pauser.Pause(d.run, left); err != nil && d.run.Err() == nil {
		return fmt.Errorf("the pause was not recorded: %w", err)
	}
	d.news.say(News{Paused: measure.Now()})
	return nil
}

// Outcome is how a call with this ctx ended in a run that may have ended, too.
func Outcome(run, ctx context.Context, err error) measure.Outcome {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return measure.Granted
	// The first two were told so at once, the third found out by waiting.
	case errors.As(err, &refused), errors.Is(err, engines.ErrRefused),
		errors.Is(ctx.Err(), context.DeadlineExceeded):
		return measure.Refused
	case run.Err() != nil:
		return measure.Waiting
	case ctx.Err() != nil:
		return measure.Left
	default:
		return measure.Failed
	}
}

func (d *desk) pause() {
	select {
	case <-time.After(afterFailure):
	case <-d.run.Done():
	}
}
