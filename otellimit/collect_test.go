package otellimit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit/otellimit"
)

// readings is what one collection finds: values by metric and attributes, as in
// "fairlimit.permits limiter=office outcome=taken". Of a histogram, count and
// sum are told apart by "#" and "+" after its name.
type readings map[string]float64

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

func (p program) collect() readings {
	p.t.Helper()
	r := readings{}
	for _, m := range p.collected() {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			add(r, m.Name, data.DataPoints)
		case metricdata.Gauge[int64]:
			add(r, m.Name, data.DataPoints)
		case metricdata.Gauge[float64]:
			add(r, m.Name, data.DataPoints)
		case metricdata.Histogram[int64]:
			addHistogram(r, m.Name, data.DataPoints)
		case metricdata.Histogram[float64]:
			addHistogram(r, m.Name, data.DataPoints)
		default:
			p.t.Fatalf("%s is %T", m.Name, data)
		}
	}
	return r
}

func add[N int64 | float64](r readings, name string, points []metricdata.DataPoint[N]) {
	for _, point := range points {
		r[name+attributes(point.Attributes)] = float64(point.Value)
	}
}

func addHistogram[N int64 | float64](r readings, name string, points []metricdata.HistogramDataPoint[N]) {
	for _, point := range points {
		r[name+"#"+attributes(point.Attributes)] = float64(point.Count)
		r[name+"+"+attributes(point.Attributes)] = float64(point.Sum)
	}
}

func attributes(set attribute.Set) string {
	var all strings.Builder
	for _, a := range set.ToSlice() {
		fmt.Fprintf(&all, " %s=%s", a.Key, a.Value.Emit())
	}
	return all.String()
}

func (r readings) show(t *testing.T, want readings) {
	t.Helper()
	for series, value := range want {
		got, is := r[series]
		assert.True(t, is || value == 0, "there is no %s", series)
		assert.InDelta(t, value, got, 1e-9, series)
	}
}
