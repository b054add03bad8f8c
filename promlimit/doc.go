// Package promlimit makes metrics for Prometheus of what a limiter does. It is a
// module of its own, so that only those who import it depend on Prometheus.
//
//	metrics := promlimit.New("tax-office")
//	prometheus.MustRegister(metrics)
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1),
//		fairlimit.WithGuard(50*time.Millisecond),
//		fairlimit.WithTrace(metrics.Trace()),
//		fairlimit.WithTrace(fairlimit.LogTrace(slog.Default()))) // if you want a log as well
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
//	fairlimit_wait_duration_seconds    histogram  from a call of Wait to its turn, of those who went
//	fairlimit_permits_total            counter    permits by outcome, see below
//	fairlimit_callers_waiting          gauge      callers that wait
//	fairlimit_permits_ahead            gauge      permits of callers that wait and of reservations ahead,
//	                                              which is what fairlimit.WithMaxQueued bounds
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
// The queue is one for all processes, so each of them shows the same. Take the
// max of these three, not the sum:
//
//	fairlimit_queue_permits            gauge      permits granted for the future
//	fairlimit_queue_delay_seconds      gauge      the wait that one more permit would get
//	fairlimit_available                gauge      permits to be had without waiting
//
// The outcomes of permits are not exclusive, so their sum says nothing:
//
//	granted     a caller was granted a turn
//	taken       a caller went with it; not known of a reservation that is slept by hand
//	missed      it was not taken because the caller woke too late
//	given_back  nobody will use them, so they went back; also those of callers
//	            who had left before they were granted
//	refused     the turn would have come too late, or too many are queued
//	left        the caller's ctx ended while it waited
//	failed      any other error, mostly of Redis
//
// What a fallback lets go is in the wait duration, and in no outcome.
//
// # Is my guard wide enough?
//
// A guard has to cover how much the delays from slot to upstream differ. The
// wake lateness is this process's part of that. If the 99.9th percentile comes
// near [fairlimit.WithMaxLateness], which is half of the guard by default, turns
// are missed: widen the guard, or give the process more of a processor.
//
// # Dashboard
//
// Beside this file lies dashboard.json, for Grafana 10 or newer. It shows all of
// these, for the metrics of module otellimit as well.
package promlimit
