package promlimit_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/promlimit"
	"github.com/fairlimit/fairlimit/window"
)

func TestAScrapeShowsWhoWaitsAndWhatBecameOfThem(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l, m := watched(t, rdb, fairlimit.Every(time.Hour))
		e := export(t, m)
		e.scrape().shows(t, page{
			"fairlimit_callers_waiting": 0, "fairlimit_permits_ahead": 0, "fairlimit_degraded": 0,
			"fairlimit_queue_permits": 0, "fairlimit_queue_delay_seconds": 0, "fairlimit_available": 1,
			"fairlimit_pause_remaining_seconds":                  0,
			`fairlimit_permits_total{outcome="taken"}`:           0, // it is there before anybody went
			`fairlimit_questions_total{op="take",failed="true"}`: 0,
		})
		require.NoError(t, l.Wait(t.Context()))

		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { assert.ErrorIs(t, l.Wait(ctx), context.Canceled) })
		}
		e.until("two callers sleep", func(p page) bool { return p.of("fairlimit_queue_permits") == 2 })
		turn, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorAs(t, l.Wait(soon), new(*fairlimit.RefusedError))
		ok, err := l.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok)

		p := e.scrape()
		p.shows(t, page{
			"fairlimit_callers_waiting": 2, "fairlimit_permits_ahead": 3,
			"fairlimit_queue_permits": 3, "fairlimit_available": 0,
			`fairlimit_permits_total{outcome="granted"}`: 4, `fairlimit_permits_total{outcome="taken"}`: 1,
			`fairlimit_permits_total{outcome="refused"}`: 2, `fairlimit_permits_total{outcome="left"}`: 0,
			`fairlimit_permits_total{outcome="missed"}`: 0, `fairlimit_permits_total{outcome="failed"}`: 0,
			"fairlimit_wait_duration_seconds_count": 1, "fairlimit_wake_lateness_seconds_count": 1,
			"fairlimit_question_callers_sum":   6,
			"fairlimit_question_callers_count": p.of(`fairlimit_questions_total{op="take",failed="false"}`),
			"fairlimit_status_failures_total":  0,
		})
		assert.InDelta(t, 4*3600, p.of("fairlimit_queue_delay_seconds"), 60)

		leave()
		wg.Wait()
		require.NoError(t, turn.Cancel(t.Context()))
		p = e.until("all is back", func(p page) bool {
			return p.of(`fairlimit_permits_total{outcome="given_back"}`) == 3
		})
		p.shows(t, page{
			"fairlimit_callers_waiting": 0, "fairlimit_permits_ahead": 0, "fairlimit_queue_permits": 0,
			`fairlimit_permits_total{outcome="left"}`: 2,
			"fairlimit_wait_duration_seconds_count":   1, // they did not go
		})
	})
}

func TestAScrapeShowsHowLongCallersWaited(t *testing.T) {
	l, m := watched(t, redistest.Standalone(t), fairlimit.Quota{Permits: 2, Per: 300 * time.Millisecond})
	e := export(t, m)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
	}
	wg.Wait()
	p := e.scrape()
	p.shows(t, page{
		"fairlimit_wait_duration_seconds_count": 4, "fairlimit_wake_lateness_seconds_count": 4,
		`fairlimit_permits_total{outcome="taken"}`: 4,
		"fairlimit_question_callers_sum":           4,
	})
	assert.GreaterOrEqual(t, p.of("fairlimit_wait_duration_seconds_sum"), .55, "two of them waited for 300 ms")
	assert.LessOrEqual(t, p.of(`fairlimit_wait_duration_seconds_bucket{le="0.25"}`), 2.)
}

func TestAScrapeShowsTurnsThatWereMissed(t *testing.T) {
	server, proxy := redistest.StartServer(t), redistest.StartProxy(t)
	rdb := proxy.Client(&redis.Options{Addr: server.Addr()})
	l, m := watched(t, rdb, fairlimit.Quota{Permits: 1000, Per: time.Minute},
		fairlimit.WithMaxLateness(50*time.Millisecond),
		fairlimit.WithTrace(&fairlimit.Trace{Missed: func(int, time.Duration) { proxy.Heal() }}))
	e := export(t, m)
	for range 5 { // so that it knows how quick answers are
		require.NoError(t, l.Wait(t.Context()))
	}
	const taken = `fairlimit_permits_total{outcome="taken"}`
	before := e.scrape().of(taken)

	proxy.Delay(500 * time.Millisecond)
	require.NoError(t, l.WaitN(t.Context(), 3), "it takes another turn")
	p := e.until("what was missed is back", func(p page) bool {
		missed := p.of(`fairlimit_permits_total{outcome="missed"}`)
		return missed >= 3 && p.of(`fairlimit_permits_total{outcome="given_back"}`) == missed
	})
	assert.EqualValues(t, 3, p.of(taken)-before)
	const soon = `fairlimit_wake_lateness_seconds_bucket{le="0.25"}`
	late := p.of("fairlimit_wake_lateness_seconds_count") - p.of(soon)
	assert.GreaterOrEqual(t, late, 1., "the turn that was missed was half a second late")
}

func TestAScrapeShowsThatTheFallbackDecides(t *testing.T) {
	s := redistest.StartServer(t)
	l, m := watched(t, s.Client(), fairlimit.Quota{Permits: 1000, Per: 100 * time.Millisecond},
		fairlimit.WithFallback(fairlimit.FailOpen))
	e := export(t, m)
	queue := []string{"fairlimit_queue_permits", "fairlimit_queue_delay_seconds", "fairlimit_available"}
	require.NoError(t, l.Wait(t.Context()))
	p := e.scrape()
	p.shows(t, page{"fairlimit_degraded": 0, "fairlimit_status_failures_total": 0})
	for _, series := range queue {
		assert.True(t, p.has(series), series)
	}

	s.Kill()
	require.NoError(t, l.Wait(t.Context()), "the fallback lets it go")
	p = e.until("the question has failed", func(p page) bool {
		return p.of(`fairlimit_questions_total{op="take",failed="true"}`) == 1
	})
	p.shows(t, page{
		"fairlimit_degraded": 1, "fairlimit_callers_waiting": 0,
		"fairlimit_wait_duration_seconds_count":    2,
		`fairlimit_permits_total{outcome="taken"}`: 1,
	})
	assert.GreaterOrEqual(t, p.of("fairlimit_status_failures_total"), 1.)
	for _, series := range queue {
		assert.False(t, p.has(series), series)
	}

	s.Restart()
	e.until("Redis decides again, and shows its queue", func(p page) bool {
		assert.NoError(t, l.Wait(t.Context()))
		return p.of("fairlimit_degraded") == 0 && p.has("fairlimit_available")
	})
}

func TestAScrapeShowsThatRedisHadLostTurns(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		m, name := promlimit.New("office"), redistest.Name(t)
		l := limitertest.Named(t, rdb, name, fairlimit.PerHour(5), fairlimit.WithTrace(m.Trace()))
		m.Watch(l)
		e := export(t, m)
		require.NoError(t, l.Wait(t.Context()))
		e.scrape().shows(t, page{"fairlimit_losses_total": 0})
		require.NoError(t, rdb.Del(t.Context(), limitertest.Key(name)).Err())
		e.until("the scrape itself finds it out", func(p page) bool { return p.of("fairlimit_losses_total") == 1 })
		e.scrape().shows(t, page{"fairlimit_losses_total": 1})
	})
}

func TestAScrapeShowsAPauseInEveryProcess(t *testing.T) {
	limitertest.OnEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		name := redistest.Name(t)
		ours, theirs, alone := promlimit.New("office"), promlimit.New("office"), promlimit.New("office")
		queue := func(m *promlimit.Metrics) *fairlimit.Queue {
			q, err := fairlimit.NewQueue(rdb, name, fairlimit.PerSecond(5), fairlimit.WithTrace(m.Trace()))
			require.NoError(t, err)
			return q
		}
		q := queue(ours)
		ours.Watch(q)
		theirs.Watch(queue(theirs))
		queue(alone)
		remaining := func(m *promlimit.Metrics) float64 {
			return export(t, m).scrape().of("fairlimit_pause_remaining_seconds")
		}
		require.NoError(t, q.Pause(t.Context(), time.Hour))
		assert.InDelta(t, 3600, remaining(ours), 60)
		assert.InDelta(t, 3600, remaining(theirs), 60)
		assert.Zero(t, remaining(alone), "nothing is asked for it")
		export(t, ours).scrape().shows(t, page{
			"fairlimit_pauses_total":                               1,
			`fairlimit_questions_total{op="pause",failed="false"}`: 1,
		})
		export(t, theirs).scrape().shows(t, page{"fairlimit_pauses_total": 0})

		ours.Watch(nil)
		assert.InDelta(t, 3600, remaining(ours), 60, "it knows of its own")
		require.NoError(t, q.Reset(t.Context()))
		assert.Zero(t, remaining(ours))
		assert.Zero(t, remaining(theirs))
	})
}

func TestALimiterOnWindowHasMetrics(t *testing.T) {
	m := promlimit.New("office")
	l, err := fairlimit.New(redistest.Standalone(t), redistest.Name(t), fairlimit.PerHour(2),
		fairlimit.WithEngine(window.New), fairlimit.WithTrace(m.Trace()))
	require.NoError(t, err)
	m.Watch(l)
	require.NoError(t, l.Wait(t.Context()))
	export(t, m).scrape().shows(t, page{
		"fairlimit_wait_duration_seconds_count": 1, "fairlimit_available": 1,
		`fairlimit_permits_total{outcome="granted"}`: 1, `fairlimit_permits_total{outcome="taken"}`: 1,
	})
}

func TestScrapesAndCallersDoNotDisturbEachOther(t *testing.T) {
	l, m := watched(t, redistest.Standalone(t), fairlimit.Quota{Permits: 100, Per: 10 * time.Millisecond})
	e := export(t, m)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				assert.NoError(t, l.Wait(t.Context()))
			}
		})
	}
	for range 5 {
		e.scrape()
	}
	wg.Wait()
	e.scrape().shows(t, page{
		`fairlimit_permits_total{outcome="taken"}`: 400, "fairlimit_wait_duration_seconds_count": 400,
		"fairlimit_callers_waiting": 0, "fairlimit_permits_ahead": 0,
	})
}

func TestARegistryHoldsSeveralLimiters(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"tax-office", "a \"name\"\nwith {braces}", "broken \xff", ""} {
		require.NoError(t, registry.Register(promlimit.New(name)), name)
	}
	_, err := registry.Gather()
	require.NoError(t, err)
	err = registry.Register(promlimit.New("tax-office"))
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}

// families is the names of what a limiter shows that has done all there is.
func families(t *testing.T) map[string][]string {
	t.Helper()
	l, m := watched(t, redistest.Standalone(t), fairlimit.PerHour(2))
	require.NoError(t, l.Wait(t.Context()))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	all, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
	names := map[string][]string{}
	for _, family := range all {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		names[family.GetName()] = labels
		if family.GetMetric()[0].GetHistogram() != nil {
			names[family.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
			names[family.GetName()+"_sum"], names[family.GetName()+"_count"] = labels, labels
		}
	}
	return names
}

var metricName = regexp.MustCompile(`fairlimit_\w+`)

func TestTheDocumentationListsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	listed := metricName.FindAllString(string(text), -1)
	names := families(t)
	for _, name := range listed {
		assert.Contains(t, names, name)
	}
	series := regexp.MustCompile(`_(bucket|sum|count)$`)
	for name := range names {
		if !series.MatchString(name) {
			assert.Contains(t, listed, name)
		}
	}
}
