package promlimit_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
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
