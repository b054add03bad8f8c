package client

import (
	"context"
	"errors"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/metrics"
	"github.com/fairlimit/fairlimit/bench/internal/monotime"
	"github.com/fairlimit/fairlimit/bench/internal/upstream"
	"github.com/fairlimit/fairlimit/bench/internal/wire"
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
	c := metrics.Call{Client: d.job.Client, Caller: d.number, Seq: d.seq, Permits: n, Called: monotime.Now()}
	d.seq++
	turn, err := d.limiter.Acquire(ctx, d.number, n)
	c.Ended, c.Turn, c.Outcome = monotime.Now(), turn, Outcome(d.run, ctx, err)
	if err == nil {
		// The permit is spent: the call is made even if the run has ended
		// meanwhile.
		err = d.visitors[d.number].Visit(context.WithoutCancel(ctx), upstream.Arrival{
			Client: c.Client, Caller: c.Caller, Seq: c.Seq, Permits: n, Called: c.Called,
		})
		if err != nil {
			c.Outcome = metrics.Failed
		}
	}
	if c.Outcome == metrics.Failed {
		c.Error = err.Error()
		d.pause()
	}
	d.news.say(wire.News{Call: &c, RedisCalls: d.meter.count()})
	return c.Outcome == metrics.Granted
}

// Outcome is how a call with this ctx ended in a run that may have ended, too.
func Outcome(run, ctx context.Context, err error) metrics.Outcome {
	var refused *fairlimit.RefusedError
	switch {
	case err == nil:
		return metrics.Granted
	// The first two were told so at once, the third found out by waiting.
	case errors.As(err, &refused), errors.Is(err, engines.ErrRefused),
		errors.Is(ctx.Err(), context.DeadlineExceeded):
		return metrics.Refused
	case run.Err() != nil:
		return metrics.Waiting
	case ctx.Err() != nil:
		return metrics.Left
	default:
		return metrics.Failed
	}
}

func (d *desk) pause() {
	select {
	case <-time.After(afterFailure):
	case <-d.run.Done():
	}
}
