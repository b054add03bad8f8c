// Package otellimit makes metrics for OpenTelemetry of what a limiter does. It
// is a module of its own, so that only those who import it depend on
// OpenTelemetry.
//
//	metrics, err := otellimit.New("tax-office", otel.GetMeterProvider())
//	if err != nil {
//		return err
//	}
//	defer metrics.Close()
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1),
//		fairlimit.WithTrace(metrics.Trace()),
//		fairlimit.WithTrace(fairlimit.LogTrace(slog.With("limiter", "tax-office")))) // a log as well
//	if err != nil {
//		return err
//	}
//	metrics.Watch(limiter) // for the state of the queue
//	...
//	err = limiter.Wait(ctx)
//
// # Metrics
//
// Each has the attribute limiter, with the name given to [New].
//
//	fairlimit.wait.duration    s             histogram      from a call of Wait to its turn, if it went
//	fairlimit.permits          {permit}      counter        permits by outcome, see below
//	fairlimit.callers.waiting  {caller}      updowncounter  callers that wait
//	fairlimit.wake.lateness    s             histogram      from a slot to when its caller woke
//	fairlimit.questions        {question}    counter        questions to Redis, by op and failed ("true", "false")
//	fairlimit.question.callers {caller}      histogram      callers that one question for permits was for
//	fairlimit.pauses           {pause}       counter        pauses that this process sent
//	fairlimit.pause.remaining  s             gauge          how much longer the queue is paused; without
//	                                                        Watch, and while Redis is silent, by this process
//	fairlimit.losses           {loss}        counter        how often Redis had lost turns, which count again
//	fairlimit.degraded                       gauge          1 while the fallback decides
//	fairlimit.status.failures  {failure}     counter        collections without the three that follow
//
// All processes share one queue, so all of them show the same three figures.
// Take the max of them, not the sum:
//
//	fairlimit.queue.permits    {permit}      gauge          permits granted for the future
//	fairlimit.queue.delay      s             gauge          the wait that one more permit would get
//	fairlimit.available        {permit}      gauge          permits that a caller could take without waiting
//
// Of the units of fairlimit.WithUnit, with the attribute unit. Of the last two
// take the max as well:
//
//	fairlimit.settled          {amount}      counter        of turns that were settled, by part: what was
//	                                                        reserved and used, the refunds, and the debts
//	fairlimit.unit.queued      {amount}      gauge          granted or owed for the future
//	fairlimit.unit.available   {amount}      gauge          what a caller could take without waiting
//
// If much more is reserved than used, estimates are too high, and a quota stays
// unused. If there are many debts, they are too low.
//
// A permit can have several outcomes, so their sum says nothing:
//
//	granted     a caller was granted a turn
//	taken       a caller went with it; not known if it slept towards a reservation on its own
//	missed      the caller woke too late and did not take it
//	given_back  the caller will not use them, so they went back; also if it had left
//	            before they were granted
//	refused     the turn would have come too late
//	left        the caller's ctx ended while it waited
//	invalid     no quota could ever grant them, or there is no such unit
//	failed      any other error, mostly one of Redis
//
// Calls that a fallback lets go are in the wait duration, and in no outcome.
//
// The names are those of module promlimit once an exporter has translated them,
// so its dashboard.json shows these as well.
package otellimit
