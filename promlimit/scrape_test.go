package promlimit_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exposed is the text that Prometheus gets.
func exposed(t *testing.T, m prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	return answer.Body.String()
}

// page is what one scrape shows of the limiter named "office": values by
// series, without that label, as in a_total or b_total{outcome="taken"}.
type page map[string]float64

var limiterLabel = strings.NewReplacer(`{limiter="office"}`, "", `{limiter="office",`, "{", `,limiter="office"`, "")

func scrape(t *testing.T, m prometheus.Collector) page {
	t.Helper()
	p := page{}
	for line := range strings.Lines(exposed(t, m)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		require.Contains(t, line, `limiter="office"`)
		at := strings.LastIndexByte(line, ' ')
		series := limiterLabel.Replace(line[:at])
		var err error
		p[series], err = strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		require.NoError(t, err, line)
	}
	return p
}

func (p page) shows(t *testing.T, want page) {
	t.Helper()
	for series, value := range want {
		assert.Contains(t, p, series)
		assert.InDelta(t, value, p[series], 1e-9, series)
	}
}
