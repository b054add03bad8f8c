// Package promlimit makes metrics for Prometheus of what a limiter does. It is a
// module of its own, so that only those who import it depend on Prometheus.
//
//	metrics := promlimit.New("tax-office")
//	prometheus.MustRegister(metrics)
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1),
//		fairlimit.WithTrace(metrics.Trace()),
//		fairlimit.WithTrace(fairlimit.LogTrace(slog.With("limiter", "tax-office")))) // a log as well
//	if err != nil {
//		return err
//	}
//	metrics.Watch(limiter) // for the state of the queue
//
//	http.Handle("/metrics", promhttp.Handler())
//	...
//	err = limiter.Wait(ctx)
//
// # Metrics
//
// Each has the label limiter, with the name given to [New].
//
//	fairlimit_wait_duration_seconds    histogram  from a call of Wait to its turn, if it went
//	fairlimit_permits_total            counter    permits by outcome, see below
//	fairlimit_callers_waiting          gauge      callers that wait
//	fairlimit_wake_lateness_seconds    histogram  from a slot to when its caller woke
//	fairlimit_questions_total          counter    questions to Redis, by op and failed ("true", "false")
//	fairlimit_question_callers         histogram  callers that one question for permits was for
//	fairlimit_pauses_total             counter    pauses that this process sent
//	fairlimit_pause_remaining_seconds  gauge      how much longer the queue is paused; without Watch, and
//	                                              while Redis does not answer, by this process
//	fairlimit_losses_total             counter    how often Redis had lost turns, which count again
//	fairlimit_degraded                 gauge      1 while the fallback decides
//	fairlimit_status_failures_total    counter    scrapes without the three that follow
//
// All processes share one queue, so all of them show the same three figures.
// Take the max of them, not the sum:
//
//	fairlimit_queue_permits            gauge      permits granted for the future
//	fairlimit_queue_delay_seconds      gauge      the wait that one more permit would get
//	fairlimit_available                gauge      permits that a caller could take without waiting
//
// Of the units of fairlimit.WithUnit, with the label unit. Of the last two take
// the max as well:
//
//	fairlimit_settled_total            counter    of turns that were settled, by part: what was reserved
//	                                              and used, the refunds, and the debts
//	fairlimit_unit_queued              gauge      granted or owed for the future
//	fairlimit_unit_available           gauge      what a caller could take without waiting
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
// # Is my guard wide enough?
//
// A guard has to cover how much the delays from slot to upstream differ. The
// wake lateness is this process's part of them. If its 99.9th percentile comes
// near half of the guard, turns are missed. Then widen the guard, or give the
// process more processor time.
//
// # Dashboard
//
// Beside this file is dashboard.json, for Grafana 10 or newer. It shows all of
// these metrics, and those of module otellimit.
package promlimit
