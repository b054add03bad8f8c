package otellimit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/otellimit"
)

// TestMain fails if a goroutine is left when nobody uses a limiter any more.
func TestMain(m *testing.M) { redistest.Main(m) }

// program is one whose metrics are collected by hand.
type program struct {
	t        *testing.T
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
}

func newProgram(t *testing.T) program {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	return program{t, reader, provider}
}

func (p program) metrics(name string) *otellimit.Metrics {
	p.t.Helper()
	m, err := otellimit.New(name, p.provider)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { assert.NoError(p.t, m.Close()) })
	return m
}

func (p program) collected() []metricdata.Metrics {
	p.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(p.t, p.reader.Collect(p.t.Context(), &all))
	var metrics []metricdata.Metrics
	for _, scope := range all.ScopeMetrics {
		require.Equal(p.t, otellimit.Scope, scope.Scope.Name)
		metrics = append(metrics, scope.Metrics...)
	}
	return metrics
}

// data is what a metric of any kind has, as an exporter writes it.
type data struct {
	DataPoints []struct {
		Attributes []struct {
			Key   string
			Value struct{ Value any }
		}
		Value      float64
		Count, Sum *float64 // of a histogram
	}
}

// series is what one collection finds, as in
// "fairlimit.permits limiter=office outcome=taken: 9". Of a histogram it is the
// count and the sum.
func (p program) series() (all []string) {
	p.t.Helper()
	for _, m := range p.collected() {
		text, err := json.Marshal(m.Data)
		require.NoError(p.t, err)
		var d data
		require.NoError(p.t, json.Unmarshal(text, &d))
		for _, point := range d.DataPoints {
			s := m.Name
			for _, a := range point.Attributes {
				s += fmt.Sprintf(" %s=%v", a.Key, a.Value.Value)
			}
			if point.Count == nil {
				s += fmt.Sprintf(": %v", point.Value)
			} else {
				s += fmt.Sprintf(": %v, %v", *point.Count, *point.Sum)
			}
			all = append(all, s)
		}
	}
	return all
}

// shows wants all lines of a text in one collection.
func (p program) shows(text string) {
	p.t.Helper()
	assert.Subset(p.t, p.series(), strings.Split(strings.TrimSpace(text), "\n"))
}
