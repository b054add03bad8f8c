package otellimit_test

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/otellimit"
)

// What each event means is up to package metrics, and tested there.
func TestACollectionShowsEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(t)
		trace := p.metrics("office").Trace()
		limitertest.Happens(trace)
		p.shows(`
fairlimit.callers.waiting limiter=office: 1
fairlimit.degraded limiter=office: 1
fairlimit.pause.remaining limiter=office: 3600
fairlimit.permits limiter=office outcome=granted: 5
fairlimit.permits limiter=office outcome=refused: 6
fairlimit.permits limiter=office outcome=left: 7
fairlimit.permits limiter=office outcome=failed: 8
fairlimit.permits limiter=office outcome=taken: 9
fairlimit.permits limiter=office outcome=missed: 10
fairlimit.permits limiter=office outcome=given_back: 11
fairlimit.wait.duration limiter=office: 1, 0.3
fairlimit.wake.lateness limiter=office: 2, 0.501
fairlimit.questions failed=false limiter=office op=take: 1
fairlimit.questions failed=true limiter=office op=take: 1
fairlimit.question.callers limiter=office: 2, 14
fairlimit.pauses limiter=office: 1
fairlimit.losses limiter=office: 1
fairlimit.settled limiter=office part=reserved unit=tokens: 18
fairlimit.settled limiter=office part=used unit=tokens: 19
fairlimit.settled limiter=office part=refund unit=tokens: 2
fairlimit.settled limiter=office part=debt unit=tokens: 3`)
		trace.FellBack(nil)
		p.shows("fairlimit.degraded limiter=office: 0")
	})
}

func TestACollectionShowsTheQueueWhileRedisTellsOfIt(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	l := &limitertest.Standing{As: fairlimit.Status{Queued: 3, Delay: 4 * time.Second, Available: 5}}
	l.As.Units = map[string]fairlimit.UnitStatus{"tokens": {Queued: 6, Available: 7}}
	m.Watch(l)
	p.shows(`
fairlimit.queue.permits limiter=office: 3
fairlimit.queue.delay limiter=office: 4
fairlimit.available limiter=office: 5
fairlimit.unit.queued limiter=office unit=tokens: 6
fairlimit.unit.available limiter=office unit=tokens: 7
fairlimit.status.failures limiter=office: 0`)
	l.Err = errors.New("silent")
	p.shows("fairlimit.status.failures limiter=office: 1")
	for _, series := range p.series() {
		assert.NotRegexp(t, `^fairlimit\.(queue|available|unit)\b`, series)
	}
}

func TestSeveralLimitersHaveOneProvider(t *testing.T) {
	p := newProgram(t)
	for n, name := range []string{"one", "two", "broken \xff"} {
		p.metrics(name).Trace().Taken(n+1, 0, true)
	}
	p.shows(`
fairlimit.permits limiter=one outcome=taken: 1
fairlimit.permits limiter=two outcome=taken: 2
fairlimit.permits limiter=broken ` + "\uFFFD" + ` outcome=taken: 3`)
}

func TestAfterCloseACollectionLooksAtNothing(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	p.shows("fairlimit.callers.waiting limiter=office: 0")
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

// A line of the table in doc.go: name, unit, kind.
var listed = regexp.MustCompile(`(?m)^//\t(fairlimit\.\S+) +(\S*) +(histogram|counter|updowncounter|gauge) `)

func TestTheDocumentationListsWhatThereIs(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	m.Watch(&limitertest.Standing{As: fairlimit.Status{Units: map[string]fairlimit.UnitStatus{"tokens": {}}}})
	trace := m.Trace()
	trace.Settled("tokens", 1, 1)
	trace.Left(1, 0, nil)
	trace.Taken(1, 0, true)
	trace.Asked("take", 1, 0, nil)
	trace.Paused(time.Minute)
	trace.Lost()
	all := map[string][2]string{}
	for _, m := range p.collected() {
		assert.NotEmpty(t, m.Description, m.Name)
		all[m.Name] = [2]string{m.Unit, kind(m.Data)}
	}
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	documented := map[string][2]string{}
	for _, line := range listed.FindAllStringSubmatch(string(text), -1) {
		documented[line[1]] = [2]string{line[2], line[3]}
	}
	assert.Equal(t, all, documented)
}

func kind(data metricdata.Aggregation) string {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		return "counter"
	case metricdata.Sum[float64]:
		if data.IsMonotonic {
			return "counter"
		}
		return "updowncounter"
	case metricdata.Gauge[float64]:
		return "gauge"
	}
	return "histogram"
}
