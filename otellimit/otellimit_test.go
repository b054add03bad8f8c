package otellimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/otellimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// program is one whose metrics are collected by hand.
type program struct {
	*testing.T
	*sdk.ManualReader
	*sdk.MeterProvider
}

func newProgram(t *testing.T) program {
	reader := sdk.NewManualReader()
	return program{t, reader, sdk.NewMeterProvider(sdk.WithReader(reader))}
}

func (p program) metrics(name string) *otellimit.Metrics {
	p.Helper()
	m, err := otellimit.New(name, p.MeterProvider)
	require.NoError(p, err)
	return m
}

// series is what one collection finds, as in
// "fairlimit.permits {permit} monotonic=true limiter=office outcome=taken: 9". Of a
// histogram it is the sum.
func (p program) series() (all []string) {
	p.Helper()
	var found metricdata.ResourceMetrics
	require.NoError(p, p.Collect(p.Context(), &found))
	for _, scope := range found.ScopeMetrics {
		require.Equal(p, otellimit.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			require.NotEmpty(p, m.Description, m.Name)
			var data struct { // of any kind
				IsMonotonic *bool // of a counter true, of an UpDownCounter false
				DataPoints  []struct {
					Attributes []struct {
						Key   string
						Value struct{ Value any }
					}
					Value, Sum float64
				}
			}
			text, err := json.Marshal(m.Data)
			require.NoError(p, errors.Join(err, json.Unmarshal(text, &data)))
			for _, point := range data.DataPoints {
				s := m.Name + " " + m.Unit
				if data.IsMonotonic != nil {
					s += fmt.Sprint(" monotonic=", *data.IsMonotonic)
				}
				for _, a := range point.Attributes {
					s += fmt.Sprintf(" %s=%v", a.Key, a.Value.Value)
				}
				all = append(all, fmt.Sprint(s, ": ", point.Value+point.Sum))
			}
		}
	}
	return all
}

// shows wants all lines of a text in one collection.
func (p program) shows(text string) {
	p.Helper()
	assert.Subset(p, p.series(), strings.Split(strings.TrimSpace(text), "\n"))
}

// What each event means is up to package metrics, and tested there.
func TestACollectionShowsMetricsOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(t)
		m := p.metrics("office")
		limitertest.Happens(m.Trace())
		l := &limitertest.Standing{As: fairlimit.Status{Delay: 4 * time.Second}}
		l.As.Units = map[string]fairlimit.UnitStatus{"tokens": {Queued: 6}}
		m.Watch(l)
		p.shows(`
fairlimit.callers.waiting {caller} monotonic=false limiter=office: 1
fairlimit.degraded  limiter=office: 1
fairlimit.permits {permit} monotonic=true limiter=office outcome=taken: 9
fairlimit.wait.duration s limiter=office: 0.3
fairlimit.questions {question} monotonic=true failed=true limiter=office op=take: 1
fairlimit.pauses {pause} monotonic=true limiter=office: 1
fairlimit.settled {amount} monotonic=true limiter=office part=used unit=tokens: 19
fairlimit.queue.delay s limiter=office: 4
fairlimit.unit.queued {amount} limiter=office unit=tokens: 6`)
		l.Err = errors.New("silent")
		p.shows("fairlimit.status.failures {failure} monotonic=true limiter=office: 1")
		for _, series := range p.series() {
			assert.NotRegexp(t, `^fairlimit\.(queue|available|unit)\b`, series)
		}
	})
}

func TestSeveralLimitersHaveOneProvider(t *testing.T) {
	p := newProgram(t)
	for n, name := range []string{"one", "two", "broken \xff"} {
		p.metrics(name).Trace().Taken(n+1, 0, true)
	}
	p.shows(`
fairlimit.permits {permit} monotonic=true limiter=one outcome=taken: 1
fairlimit.permits {permit} monotonic=true limiter=two outcome=taken: 2
fairlimit.permits {permit} monotonic=true limiter=broken ` + "\uFFFD" + ` outcome=taken: 3`)
}

func TestAfterCloseACollectionLooksAtNothing(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	require.NotEmpty(t, p.series())
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.Empty(t, p.series())
}

type noMeter = noop.Meter

// broken is a provider, and its own meter, which takes no callbacks.
type broken struct {
	noop.MeterProvider
	noMeter
}

func (b broken) Meter(string, ...metric.MeterOption) metric.Meter { return b }

func (broken) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, assert.AnError
}

func TestWithoutAProviderThatWorksThereIsAnError(t *testing.T) {
	_, err := otellimit.New("office", nil)
	require.ErrorIs(t, err, otellimit.ErrNilProvider)
	m, err := otellimit.New("office", broken{})
	require.ErrorIs(t, err, assert.AnError)
	assert.Nil(t, m)
}
