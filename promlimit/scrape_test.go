package promlimit_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/promlimit"
)

// page is what one scrape shows: values by series, as written there.
type page map[string]float64

// exporter is a program that Prometheus scrapes over HTTP.
type exporter struct {
	t      *testing.T
	server *httptest.Server
}

func export(t *testing.T, all ...prometheus.Collector) exporter {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, m := range all {
		require.NoError(t, registry.Register(m))
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return exporter{t, server}
}

func (e exporter) scrape() page {
	e.t.Helper()
	reply, err := e.server.Client().Get(e.server.URL)
	require.NoError(e.t, err)
	defer func() { _ = reply.Body.Close() }()
	require.Equal(e.t, http.StatusOK, reply.StatusCode)
	p := page{}
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		at := strings.LastIndexByte(lines.Text(), ' ')
		value, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		require.NoError(e.t, err)
		p[lines.Text()[:at]] = value
	}
	require.NoError(e.t, lines.Err())
	return p
}

// until scrapes until a page is as it shall be, and returns it.
func (e exporter) until(what string, so func(page) bool) page {
	e.t.Helper()
	var p page
	require.Eventually(e.t, func() bool {
		p = e.scrape()
		return so(p)
	}, 30*time.Second, 10*time.Millisecond, what)
	return p
}

// shows asserts the values of series of the limiter named "office". A series is
// written without that label: a_total, or b_total{outcome="taken"}.
func (p page) shows(t *testing.T, want page) {
	t.Helper()
	for series, value := range want {
		got, is := p[office(series)]
		assert.True(t, is, "there is no %s", office(series))
		assert.InDelta(t, value, got, 1e-9, series)
	}
}

func (p page) of(series string) float64 { return p[office(series)] }

func (p page) has(series string) bool {
	_, is := p[office(series)]
	return is
}

func office(series string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	all := []string{`limiter="office"`}
	if labels != "" {
		all = append(all, strings.Split(labels, ",")...)
	}
	slices.Sort(all)
	return name + "{" + strings.Join(all, ",") + "}"
}

// watched is a limiter on fair, and its metrics under the name "office".
func watched(
	t *testing.T, rdb redis.UniversalClient, quota fairlimit.Quota, opts ...fairlimit.Option,
) (*fairlimit.Queue, *promlimit.Metrics) {
	t.Helper()
	m := promlimit.New("office")
	q, err := fairlimit.NewQueue(rdb, redistest.Name(t), quota, append(opts, fairlimit.WithTrace(m.Trace()))...)
	require.NoError(t, err)
	m.Watch(q)
	return q, m
}
