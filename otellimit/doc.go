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
// They are those of module promlimit, where a table says what each means. Labels are
// attributes here, a scrape is a collection, and names have dots and no endings:
//
//	here                     unit  there
//	fairlimit.permits              fairlimit_permits_total
//	fairlimit.wait.duration  s     fairlimit_wait_duration_seconds
//
// Exporters for Prometheus translate these names to those. So the dashboard.json of
// promlimit shows these metrics as well. fairlimit.callers.waiting is an
// UpDownCounter, since the callers of all processes can be added up.
package otellimit
