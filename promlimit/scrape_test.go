package promlimit_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
