package simulate

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// desk is where one caller makes its calls, and where they are written down.
type desk struct {
	*world
	run            context.Context
	number, caller int
	seq            int
}

func (d *desk) call(ctx context.Context, n int) bool {
	d.instants.sleep(d.number, d.caller, acts, none)
	if d.run.Err() != nil {
		return false
	}
	c := measure.Call{Client: d.number, Caller: d.caller, Seq: d.seq, Permits: n, Called: d.now()}
	d.seq++
	named := engines.WithLateness(context.WithValue(ctx, who{}, d.caller), d.late)
	turn, err := d.clients[d.number].limiter.Acquire(named, d.caller, n)
	c.Ended, c.Turn, c.Outcome = d.now(), turn, run.Outcome(d.run, ctx, err)
	switch c.Outcome {
	case measure.Granted:
		d.visit(&c)
	case measure.Failed:
		c.Error = err.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	return c.Outcome == measure.Granted
}

// visit goes to the upstream, unless the run is over before it is there.
func (d *desk) visit(c *measure.Call) {
	d.instants.sleep(d.number, d.caller, acts, wire)
	if d.run.Err() != nil {
		return
	}
	c.Reached, c.Arrived = true, d.now()
	admitted, _ := d.ledger.Arrive(run.Arrival{
		Client: c.Client, Caller: c.Caller, Seq: c.Seq, Permits: c.Permits, Called: c.Called,
	})
	c.Rejected = !admitted
}

// late is how late the caller's timer for a wait of in goes off.
func (d *desk) late(caller int, in time.Duration) time.Duration {
	slot, due := d.instants.slot(d.number, caller, acts), d.now()+in
	return d.instants.next(due+timer(d.instants.rand(slot)), slot) - due
}
