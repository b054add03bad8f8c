// Package river shows workers on many machines whose jobs call one upstream.
//
// The limiter stands in Work, before the call, so that each attempt of a job
// waits for a turn of its own. River gives a job a minute. If its turn would come
// later, it is refused at once, and the job is snoozed until then: the worker is
// free, and the job loses none of its attempts.
//
// A snoozed job holds no place in the queue, so a later one may pass it. Workers
// that wait keep the order. A longer Timeout of the worker lets them wait longer.
package river

import (
	"context"
	"errors"

	"github.com/riverqueue/river"

	"github.com/fairlimit/fairlimit"
)

// ReportArgs is a report that has to be sent.
type ReportArgs struct {
	Number int `json:"number"`
}

// Kind is how River names such jobs.
func (ReportArgs) Kind() string { return "report" }

// ReportWorker sends reports, each in its turn.
type ReportWorker struct {
	river.WorkerDefaults[ReportArgs]

	// Queue may be one made WithMaxWait. Then jobs are snoozed that would wait
	// longer.
	Queue *fairlimit.Queue

	// Send calls the upstream. If that says "429, Retry-After", it calls
	// Queue.Pause, which holds the jobs of all machines, and returns an error.
	Send func(ctx context.Context, report ReportArgs) error
}

// Work waits for the job's turn and sends the report.
func (w *ReportWorker) Work(ctx context.Context, job *river.Job[ReportArgs]) error {
	err := w.Queue.Wait(ctx)
	var refused *fairlimit.RefusedError
	if errors.As(err, &refused) {
		return river.JobSnooze(refused.Wait)
	}
	if err != nil {
		return err
	}
	return w.Send(ctx, job.Args)
}
