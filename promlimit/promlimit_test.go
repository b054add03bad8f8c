package promlimit_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/promlimit"
)

// What each event means is up to package metrics, and tested there.
func TestAScrapeShowsEachEvent(t *testing.T) {
	m := promlimit.New("office")
	trace := m.Trace()
	scrape(t, m).shows(t, page{ // they are there before anything happens
		`fairlimit_permits_total{outcome="taken"}`:           0,
		`fairlimit_questions_total{failed="true",op="take"}`: 0,
		"fairlimit_callers_waiting":                          0, "fairlimit_degraded": 0,
	})
	limitertest.Happens(trace)
	p := scrape(t, m)
	p.shows(t, page{
		"fairlimit_callers_waiting": 1, "fairlimit_permits_ahead": 5, "fairlimit_degraded": 1,
		`fairlimit_permits_total{outcome="granted"}`: 5, `fairlimit_permits_total{outcome="refused"}`: 6,
		`fairlimit_permits_total{outcome="left"}`: 7, `fairlimit_permits_total{outcome="failed"}`: 8,
		`fairlimit_permits_total{outcome="taken"}`: 9, `fairlimit_permits_total{outcome="missed"}`: 10,
		`fairlimit_permits_total{outcome="given_back"}`: 11,
		"fairlimit_wait_duration_seconds_count":         1, "fairlimit_wait_duration_seconds_sum": .3,
		"fairlimit_wake_lateness_seconds_count": 2, "fairlimit_wake_lateness_seconds_sum": .501,
		`fairlimit_questions_total{failed="false",op="take"}`: 1,
		`fairlimit_questions_total{failed="true",op="take"}`:  1,
		"fairlimit_question_callers_count":                    2, "fairlimit_question_callers_sum": 14,
		"fairlimit_pauses_total": 1, "fairlimit_losses_total": 1,
		`fairlimit_settled_total{part="reserved",unit="tokens"}`: 18,
		`fairlimit_settled_total{part="used",unit="tokens"}`:     19,
		`fairlimit_settled_total{part="refund",unit="tokens"}`:   2,
		`fairlimit_settled_total{part="debt",unit="tokens"}`:     3,
	})
	assert.InDelta(t, 3600, p["fairlimit_pause_remaining_seconds"], 60)
	assert.EqualValues(t, 1, p[`fairlimit_wake_lateness_seconds_bucket{le="0.1"}`])
	trace.FellBack(nil)
	scrape(t, m).shows(t, page{"fairlimit_degraded": 0})
}

func TestAScrapeShowsTheQueueWhileRedisTellsOfIt(t *testing.T) {
	m := promlimit.New("office")
	queue := page{
		"fairlimit_queue_permits": 3, "fairlimit_queue_delay_seconds": 4, "fairlimit_available": 5,
		`fairlimit_unit_queued{unit="tokens"}`: 6, `fairlimit_unit_available{unit="tokens"}`: 7,
	}
	hasNone := func() {
		t.Helper()
		p := scrape(t, m)
		for series := range queue {
			assert.NotContains(t, p, series)
		}
	}
	hasNone()
	l := &limitertest.Standing{As: fairlimit.Status{
		Queued: 3, Delay: 4 * time.Second, Available: 5, Paused: 2 * time.Second,
		Units: map[string]fairlimit.UnitStatus{"tokens": {Queued: 6, Available: 7}},
	}}
	m.Watch(l)
	scrape(t, m).shows(t, queue)
	scrape(t, m).shows(t, page{"fairlimit_pause_remaining_seconds": 2, "fairlimit_status_failures_total": 0})
	l.Err = errors.New("silent")
	hasNone()
	assert.Positive(t, scrape(t, m)["fairlimit_status_failures_total"])
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
	listed := metricName.FindAllString(string(text), -1)
	names := families(t)
	for _, name := range listed {
		assert.Contains(t, names, name)
	}
	series := regexp.MustCompile(`_(bucket|sum|count)$`)
	for name := range names {
		if !series.MatchString(name) {
			assert.Contains(t, listed, name)
		}
	}
}
