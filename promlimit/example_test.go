package promlimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/promlimit"
)

func Example() {
	server, err := embedded.Start() // a real program connects to its own
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	metrics := promlimit.New("tax-office")
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	limiter, err := fairlimit.New(server.Client(), "tax-office", fairlimit.PerHour(10),
		fairlimit.WithTrace(metrics.Trace()))
	if err != nil {
		log.Fatal(err)
	}
	metrics.Watch(limiter)
	if err := limiter.WaitN(context.Background(), 3); err != nil {
		log.Fatal(err)
	}

	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
		ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.Contains(line, `outcome="taken"`) || strings.HasPrefix(line, "fairlimit_available") {
			fmt.Print(line)
		}
	}
	// Output:
	// fairlimit_available{limiter="tax-office"} 7
	// fairlimit_permits_total{limiter="tax-office",outcome="taken"} 3
}
