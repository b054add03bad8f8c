package promlimit_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/promlimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// exposed is the lines that Prometheus gets.
func exposed(t *testing.T, m prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	return strings.Split(answer.Body.String(), "\n")
}

// shows wants all lines of a text.
func shows(t *testing.T, m prometheus.Collector, text string) {
	t.Helper()
	assert.Subset(t, exposed(t, m), strings.Split(strings.TrimSpace(text), "\n"))
}

// What each event means is up to package metrics, and tested there.
func TestAScrapeShowsMetricsOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promlimit.New("office")
		shows(t, m, `
fairlimit_permits_total{limiter="office",outcome="taken"} 0
fairlimit_questions_total{failed="true",limiter="office",op="take"} 0
fairlimit_pauses_total{limiter="office"} 0
fairlimit_callers_waiting{limiter="office"} 0`) // they are there before anything happens
		limitertest.Happens(m.Trace())
		l := &limitertest.Standing{As: fairlimit.Status{Delay: 4 * time.Second}}
		l.As.Units = map[string]fairlimit.UnitStatus{"tokens": {Queued: 6}}
		m.Watch(l)
		shows(t, m, `
fairlimit_callers_waiting{limiter="office"} 1
fairlimit_degraded{limiter="office"} 1
fairlimit_permits_total{limiter="office",outcome="taken"} 9
fairlimit_wait_duration_seconds_count{limiter="office"} 1
fairlimit_wait_duration_seconds_sum{limiter="office"} 0.3
fairlimit_wake_lateness_seconds_bucket{limiter="office",le="0.1"} 1
fairlimit_settled_total{limiter="office",part="debt",unit="tokens"} 3
fairlimit_queue_delay_seconds{limiter="office"} 4
fairlimit_unit_queued{limiter="office",unit="tokens"} 6`)
		l.Err = errors.New("silent")
		shows(t, m, `fairlimit_status_failures_total{limiter="office"} 1`)
		for _, line := range exposed(t, m) {
			assert.NotRegexp(t, "^fairlimit_(queue|available|unit)", line)
		}
	})
}

func TestARegistryHoldsSeveralLimiters(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"tax-office", "a \"name\"\nwith {braces}", "broken \xff", ""} {
		require.NoError(t, registry.Register(promlimit.New(name)), name)
	}
	_, err := registry.Gather()
	require.NoError(t, err)
	err = registry.Register(promlimit.New("tax-office"))
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}

// families are the names of all metrics, with their labels.
func families(t *testing.T) map[string][]string {
	t.Helper()
	m := promlimit.New("office")
	m.Watch(&limitertest.Standing{As: fairlimit.Status{Units: map[string]fairlimit.UnitStatus{"tokens": {}}}})
	m.Trace().Asked("take", 1, 0, nil)
	m.Trace().Settled("tokens", 1, 1)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	all, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	names := map[string][]string{}
	for _, family := range all {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		names[family.GetName()] = labels
		if family.GetMetric()[0].GetHistogram() != nil {
			names[family.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
			names[family.GetName()+"_sum"], names[family.GetName()+"_count"] = labels, labels
		}
	}
	return names
}

var metricName = regexp.MustCompile(`fairlimit_\w+`)

func TestTheDocumentationListsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	lists(t, string(text), families(t))
}

// lists wants a text that names all metrics, and no others.
func lists(t *testing.T, text string, names map[string][]string) {
	t.Helper()
	series := regexp.MustCompile(`_(bucket|sum|count)$`)
	base := func(name string) string { return series.ReplaceAllString(name, "") }
	listed := map[string]bool{}
	for _, name := range metricName.FindAllString(text, -1) {
		assert.Contains(t, names, name)
		listed[base(name)] = true
	}
	for name := range names {
		assert.True(t, listed[base(name)], name)
	}
}
