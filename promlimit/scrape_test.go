package promlimit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page is what one scrape shows of the limiter named "office": values by
// series, without that label, as in a_total or b_total{outcome="taken"}.
type page map[string]float64

func scrape(t *testing.T, m prometheus.Collector) page {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	all, err := registry.Gather()
	require.NoError(t, err)
	p := page{}
	for _, family := range all {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				if label.GetName() == "limiter" {
					require.Equal(t, "office", label.GetValue())
				} else {
					labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
				}
			}
			name := family.GetName()
			if h := metric.GetHistogram(); h != nil {
				p[name+"_count"], p[name+"_sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					p[fmt.Sprintf("%s_bucket{le=%q}", name, fmt.Sprint(b.GetUpperBound()))] = float64(b.GetCumulativeCount())
				}
				continue
			}
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			p[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
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
