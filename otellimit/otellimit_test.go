package otellimit_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/otellimit"
	"github.com/fairlimit/fairlimit/window"
)

func TestACollectionShowsWhoWaitsAndWhatBecameOfThem(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProgram(t)
		l := p.watched(rdb, fairlimit.Every(time.Hour))
		require.NoError(t, l.Wait(t.Context()))
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { assert.ErrorIs(t, l.Wait(ctx), context.Canceled) })
		}
		p.until("two callers sleep", func(r readings) bool { return r["fairlimit.queue.permits limiter=office"] == 2 })
		turn, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorAs(t, l.Wait(soon), new(*fairlimit.RefusedError))

		r := p.collect()
		const questions = "fairlimit.questions failed=false limiter=office op=take"
		r.show(t, readings{
			"fairlimit.callers.waiting limiter=office":         2,
			"fairlimit.permits.ahead limiter=office":           3,
			"fairlimit.queue.permits limiter=office":           3,
			"fairlimit.available limiter=office":               0,
			"fairlimit.degraded limiter=office":                0,
			"fairlimit.pause.remaining limiter=office":         0,
			"fairlimit.status.failures limiter=office":         0,
			"fairlimit.permits limiter=office outcome=granted": 4,
			"fairlimit.permits limiter=office outcome=taken":   1,
			"fairlimit.permits limiter=office outcome=refused": 1,
			"fairlimit.permits limiter=office outcome=missed":  0,
			"fairlimit.wait.duration# limiter=office":          1,
			"fairlimit.wake.lateness# limiter=office":          1,
			"fairlimit.question.callers+ limiter=office":       5,
			"fairlimit.question.callers# limiter=office":       r[questions],
		})
		assert.InDelta(t, 4*3600, r["fairlimit.queue.delay limiter=office"], 60)

		leave()
		wg.Wait()
		require.NoError(t, turn.Cancel(t.Context()))
		p.until("all is back", func(r readings) bool {
			return r["fairlimit.permits limiter=office outcome=given_back"] == 3
		}).show(t, readings{
			"fairlimit.callers.waiting limiter=office":      0,
			"fairlimit.permits.ahead limiter=office":        0,
			"fairlimit.queue.permits limiter=office":        0,
			"fairlimit.permits limiter=office outcome=left": 2,
		})
	})
}

func TestACollectionShowsThatTheFallbackDecides(t *testing.T) {
	s, p := redistest.StartServer(t), newProgram(t)
	l := p.watched(s.Client(), fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond},
		fairlimit.WithFallback(fairlimit.FailOpen))
	queue := []string{"fairlimit.queue.permits", "fairlimit.queue.delay", "fairlimit.available"}
	require.NoError(t, l.Wait(t.Context()))
	r := p.collect()
	for _, name := range queue {
		assert.Contains(t, r, name+" limiter=office")
	}

	s.Kill()
	require.NoError(t, l.Wait(t.Context()), "the fallback lets it go")
	r = p.until("the question has failed", func(r readings) bool {
		return r["fairlimit.questions failed=true limiter=office op=take"] == 1
	})
	r.show(t, readings{
		"fairlimit.degraded limiter=office":              1,
		"fairlimit.callers.waiting limiter=office":       0,
		"fairlimit.wait.duration# limiter=office":        2,
		"fairlimit.permits limiter=office outcome=taken": 1,
	})
	assert.GreaterOrEqual(t, r["fairlimit.status.failures limiter=office"], 1.)
	for _, name := range queue {
		assert.NotContains(t, r, name+" limiter=office")
	}

	s.Restart()
	p.until("Redis decides again, and shows its queue", func(r readings) bool {
		assert.NoError(t, l.Wait(t.Context()))
		_, available := r["fairlimit.available limiter=office"]
		return r["fairlimit.degraded limiter=office"] == 0 && available
	})
}

func TestACollectionShowsTurnsThatWereMissed(t *testing.T) {
	server, proxy, p := redistest.StartServer(t), redistest.StartProxy(t), newProgram(t)
	l := p.watched(proxy.Client(&redis.Options{Addr: server.Addr()}), fairlimit.Quota{Permits: 1000, Per: time.Minute},
		fairlimit.WithMaxLateness(50*time.Millisecond),
		fairlimit.WithTrace(&fairlimit.Trace{Missed: func(int, time.Duration) { proxy.Heal() }}))
	for range 5 { // so that it knows how quick answers are
		require.NoError(t, l.Wait(t.Context()))
	}
	proxy.Delay(500 * time.Millisecond)
	require.NoError(t, l.Wait(t.Context()), "it takes another turn")
	r := p.until("what was missed is back", func(r readings) bool {
		missed := r["fairlimit.permits limiter=office outcome=missed"]
		return missed >= 1 && r["fairlimit.permits limiter=office outcome=given_back"] == missed
	})
	assert.GreaterOrEqual(t, r["fairlimit.wake.lateness+ limiter=office"], .25, "one was half a second late")
}

func TestACollectionShowsPausesAndLosses(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		p := newProgram(t)
		m, name := p.metrics("office"), redistest.Name(t)
		l, err := fairlimit.NewQueue(rdb, name, fairlimit.PerHour(5), fairlimit.WithTrace(m.Trace()))
		require.NoError(t, err)
		m.Watch(l)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, rdb.Del(t.Context(), limitertest.Key(name)).Err())
		p.until("the collection itself finds it out", func(r readings) bool {
			return r["fairlimit.losses limiter=office"] == 1
		})

		require.NoError(t, l.Pause(t.Context(), time.Hour))
		r := p.collect()
		r.show(t, readings{"fairlimit.pauses limiter=office": 1})
		assert.InDelta(t, 3600, r["fairlimit.pause.remaining limiter=office"], 60)
		require.NoError(t, l.Reset(t.Context()))
		p.collect().show(t, readings{"fairlimit.pause.remaining limiter=office": 0})
	})
}

func TestSeveralLimitersHaveOneProvider(t *testing.T) {
	p, rdb := newProgram(t), redistest.Standalone(t)
	for n, name := range []string{"one", "two", "broken \xff"} {
		m := p.metrics(name)
		l := limitertest.New(t, rdb, fairlimit.PerHour(10), fairlimit.WithTrace(m.Trace()))
		require.NoError(t, l.WaitN(t.Context(), n+1))
		m.Watch(l)
	}
	p.collect().show(t, readings{
		"fairlimit.permits limiter=one outcome=taken":           1,
		"fairlimit.permits limiter=two outcome=taken":           2,
		"fairlimit.permits limiter=broken \uFFFD outcome=taken": 3,
		"fairlimit.available limiter=one":                       9,
		"fairlimit.available limiter=two":                       8,
		"fairlimit.available limiter=broken \uFFFD":             7,
	})
}

func TestAfterCloseACollectionLooksAtNothing(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	require.Contains(t, p.collect(), "fairlimit.callers.waiting limiter=office")
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.NotContains(t, p.collect(), "fairlimit.callers.waiting limiter=office")
}

func TestALimiterOnWindowHasMetrics(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	l := limiterOnWindow(t, m)
	m.Watch(l)
	require.NoError(t, l.Wait(t.Context()))
	p.collect().show(t, readings{
		"fairlimit.wait.duration# limiter=office": 1, "fairlimit.available limiter=office": 1,
		"fairlimit.permits limiter=office outcome=taken": 1,
	})
}

func limiterOnWindow(t *testing.T, m *otellimit.Metrics) fairlimit.Limiter {
	l, err := fairlimit.New(redistest.Standalone(t), redistest.Name(t), fairlimit.PerHour(2),
		fairlimit.WithEngine(window.New), fairlimit.WithTrace(m.Trace()))
	require.NoError(t, err)
	return l
}

func TestCollectionsAndCallersDoNotDisturbEachOther(t *testing.T) {
	p := newProgram(t)
	l := p.watched(redistest.Standalone(t), fairlimit.Quota{Permits: 100, Per: 10 * time.Millisecond})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				assert.NoError(t, l.Wait(t.Context()))
			}
		})
	}
	for range 5 {
		p.collect()
	}
	wg.Wait()
	p.collect().show(t, readings{
		"fairlimit.permits limiter=office outcome=taken": 400, "fairlimit.wait.duration# limiter=office": 400,
		"fairlimit.callers.waiting limiter=office": 0, "fairlimit.permits.ahead limiter=office": 0,
	})
}

// brokenMeter fails to make gauges, or to take callbacks, with the error given.
type brokenMeter struct {
	noop.Meter
	gauges, callbacks error
}

func (m brokenMeter) Int64ObservableGauge(
	string, ...metric.Int64ObservableGaugeOption,
) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, m.gauges
}

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, m.callbacks
}

type providerOf struct {
	noop.MeterProvider
	meter metric.Meter
}

func (p providerOf) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

func TestWithoutAProviderThatWorksThereIsAnError(t *testing.T) {
	_, err := otellimit.New("office", nil)
	require.ErrorIs(t, err, otellimit.ErrNilProvider)
	errBroken := errors.New("broken")
	for _, meter := range []brokenMeter{{gauges: errBroken}, {callbacks: errBroken}} {
		m, err := otellimit.New("office", providerOf{meter: meter})
		require.ErrorIs(t, err, errBroken)
		assert.Nil(t, m)
	}
}

// A line of the table in doc.go: name, unit, kind.
var listed = regexp.MustCompile(`(?m)^//\t(fairlimit\.\S+) +(\S*) +(histogram|counter|updowncounter|gauge) `)

func TestTheDocumentationListsWhatThereIs(t *testing.T) {
	p := newProgram(t)
	m := p.metrics("office")
	l := limiterOnWindow(t, m)
	m.Watch(l)
	require.NoError(t, l.Wait(t.Context()))
	m.Trace().Paused(time.Minute) // what an idle limiter on window has not
	m.Trace().Lost()
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
		if data.IsMonotonic {
			return "counter"
		}
		return "updowncounter"
	case metricdata.Gauge[int64], metricdata.Gauge[float64]:
		return "gauge"
	}
	return "histogram"
}
