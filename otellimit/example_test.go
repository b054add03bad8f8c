package otellimit_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/otellimit"
)

func Example() {
	server, err := embedded.Start() // a real program connects to its own
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	reader := sdk.NewManualReader() // a real program exports

	metrics, err := otellimit.New("tax-office", sdk.NewMeterProvider(sdk.WithReader(reader)))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = metrics.Close() }()
	limiter, err := fairlimit.New(server.Client(), "tax-office", fairlimit.PerHour(10),
		fairlimit.WithTrace(metrics.Trace()))
	if err != nil {
		log.Fatal(err)
	}
	metrics.Watch(limiter)
	ctx := context.Background()
	if err := limiter.WaitN(ctx, 3); err != nil {
		log.Fatal(err)
	}

	var found metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &found); err != nil {
		log.Fatal(err)
	}
	for _, m := range found.ScopeMetrics[0].Metrics {
		if m.Name == "fairlimit.available" {
			fmt.Println(m.Name, m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value)
		}
	}
	// Output:
	// fairlimit.available 7
}
