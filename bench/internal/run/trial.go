// Package run puts one engine through one scenario: it starts the upstream
// and the client processes, watches, ends them, and puts what both sides wrote
// down together into one log.
package run

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

const (
	// takeOff is the time between the order to begin and the beginning, so that
	// it reaches everybody before.
	takeOff = 100 * time.Millisecond

	// between two lines of progress. The first comes sooner, so that a person sees
	// that it works.
	between, first = 5 * time.Second, time.Second
)

// Trial is what is to be done.
type Trial struct {
	Scenario scenario.Scenario
	Engine   engines.Engine
	Load     scenario.Load
	Backend  *backend.Backend
	Name     string    // of the limiter; nobody else may use it
	Progress io.Writer // told now and then how far it is
}

// Result is what came of it.
type Result struct {
	Trial      Trial
	Log        measure.Log
	Limits     measure.Limits // of the upstream, with what changed
	RedisCalls int            // in all, by the server or by the clients
	RedisTime  time.Duration  // for which the server ran commands; 0 if it does not say
	Incidents  []Incident
	Faults     []string

	// WorstStall is the longest time by which a plain sleep was late during the
	// run. A client that an incident befell does not count.
	WorstStall time.Duration

	// These are there once it is judged.
	Apart   time.Duration
	Figures measure.Figures
}

// Run does it. When ctx ends it stops early and reports what was measured until
// then.
func (t Trial) Run(ctx context.Context) (result *Result, err error) {
	fmt.Fprintf(t.Progress, "%s, %s: %v to go\n", t.Scenario.Name, t.Engine.Name, t.Load.Duration)
	ledger := measure.NewLedger(measure.Limits{
		Permits: t.Load.Quota.Permits, Per: t.Load.Quota.Per, Input: t.Load.Input, Output: t.Load.Output,
	}, measure.Now)
	server := Serve(ledger)
	defer server.Close()
	callers := t.Scenario.CallersOf(t.Load)
	var jobs []Job
	for client, n := range callers {
		jobs = append(jobs, Job{
			Scenario: t.Scenario.Name, Engine: t.Engine.Name, Name: t.Name, Load: t.Load, Client: client, Callers: n,
			Redis: t.Backend.Addr, Upstream: server.URL,
		})
	}
	clients, err := Launch(ctx, Client, jobs)
	if err != nil {
		return nil, err
	}
	defer clients.Close()

	r := &Result{Trial: t, Log: measure.Log{Callers: callers}}
	before, uncounted := backend.ServedBy(ctx, t.Backend.Client)
	r.Log.Begin = measure.Now() + takeOff
	if err := clients.Start(r.Log.Begin); err != nil {
		return nil, err
	}
	watcher := Watch(t.Load.Clients, func(ctx context.Context) { t.Backend.Client.Ping(ctx) })
	during, over := context.WithCancel(ctx)
	happened := make(chan error, 1)
	go func() {
		var err error
		r.Incidents, err = t.befall(during, r.Log.Begin, ledger, clients)
		happened <- err
	}()
	t.wait(ctx, ledger, r.Log.Begin+t.Load.Duration)
	r.Log.End = measure.Now()
	over()
	r.fault(<-happened)

	tidy := context.WithoutCancel(ctx)
	after, failed := backend.ServedBy(tidy, t.Backend.Client)
	accounts, err := clients.Stop()
	r.fault(err)
	r.fault(backend.Remove(tidy, t.Backend.Client, t.Name))

	r.Limits = ledger.Limits
	r.add(accounts, ledger.Arrivals(), watcher.Close())
	r.WorstStall = r.Log.Machine.Worst(t.Scenario.Breaks())
	if !t.Scenario.Breaks() {
		r.fault(failures(r.Log.Calls))
	}
	if uncounted == nil && failed == nil && !t.Scenario.EndsRedis { // a restart sets the counter back
		served := after.Since(before)
		r.RedisCalls, r.RedisTime = int(served.Runs), time.Duration(served.Micros)*time.Microsecond
	}
	return r, nil
}

// add puts together what both sides have to tell.
func (r *Result) add(accounts []Account, arrivals []measure.Call, common []measure.Stall) {
	m := &r.Log.Machine
	for _, a := range accounts {
		r.Log.Calls, r.RedisCalls = append(r.Log.Calls, a.Calls...), r.RedisCalls+a.RedisCalls
		r.Log.Told = append(r.Log.Told, a.Told)
		stalls := slices.Concat(common, a.Stalls)
		slices.SortFunc(stalls, func(a, b measure.Stall) int { return cmp.Compare(a.From, b.From) })
		m.Stalls, m.Missed = append(m.Stalls, stalls), append(m.Missed, a.Missed)
	}
	r.Log.Calls = join(r.Log.Calls, arrivals, r.Log.End)
}

func (r *Result) fault(err error) {
	if err != nil {
		r.Faults = append(r.Faults, err.Error())
	}
}

// wait tells how far the run is, until the time is over or ctx has ended.
func (t Trial) wait(ctx context.Context, ledger *measure.Ledger, end time.Duration) {
	over := time.After(end - measure.Now())
	ticker := time.NewTicker(first)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(between)
			fmt.Fprintf(t.Progress, "%s, %s: %.0f s left, %d grants so far\n",
				t.Scenario.Name, t.Engine.Name, (end - measure.Now()).Seconds(), len(ledger.Arrivals()))
		}
	}
}

// failures says how many calls failed, or nothing if none did.
func failures(calls []measure.Call) error {
	failed, first := 0, ""
	for _, c := range calls {
		if c.Outcome == measure.Failed {
			failed, first = failed+1, cmp.Or(first, c.Error)
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("failed calls: %d, the first with: %s", failed, first)
}

// join puts the two accounts of each call together: the caller's and the
// upstream's. The upstream is believed. If a caller's process died, there may
// only be the upstream's account of its call.
func join(calls []measure.Call, arrivals []measure.Call, end time.Duration) []measure.Call {
	type key struct{ client, caller, seq int }
	at := make(map[key]int, len(calls))
	for i, c := range calls {
		at[key{c.Client, c.Caller, c.Seq}] = i
		if c.Outcome == measure.Waiting {
			calls[i].Ended = end
		}
	}
	for _, a := range arrivals {
		i, told := at[key{a.Client, a.Caller, a.Seq}]
		if !told {
			i = len(calls)
			a.Ended, a.Outcome = a.Arrived, measure.Granted
			calls = append(calls, a)
		}
		calls[i].Reached, calls[i].Arrived, calls[i].Rejected = true, a.Arrived, a.Rejected
	}
	slices.SortFunc(calls, func(a, b measure.Call) int { return cmp.Compare(a.Called, b.Called) })
	return calls
}

// orderly is the least distance at which the order of two events says something,
// on any machine. A machine that stalls blurs the order, by a tenth of the quota's
// window at most. Longer stalls count for the calls that they hit, one by one.
const orderly = 10 * time.Millisecond

// Judge works out the figures of one scenario's results. All engines are held
// to the same rule: events closer than the machine's longest stall have no order,
// within bounds. What the scenario holds up on purpose comes on top.
func Judge(results []*Result) {
	worst := time.Duration(0)
	for _, r := range results {
		worst = max(worst, r.WorstStall)
	}
	for _, r := range results {
		r.Apart = max(orderly, min(worst, r.Trial.Load.Quota.Per/10)) + r.Trial.Scenario.Replies.Most
		guard := r.Trial.Engine.Given(r.Trial.Load).Guard
		r.Figures = measure.Of(r.Log, measure.Rule{Limits: r.Limits, Guard: guard, Apart: r.Apart})
	}
}
