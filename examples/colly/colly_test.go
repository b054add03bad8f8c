package colly_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	upstream "github.com/gocolly/colly/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/colly"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/httplimit"
)

func TestEveryPageTakesATurn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			_, _ = fmt.Fprint(w, `<a href="/one">1</a><a href="/two">2</a>`)
		}
	})
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	c := example.NewCollector(t.Context(), queue)
	c.OnHTML("a[href]", func(e *upstream.HTMLElement) { assert.NoError(t, e.Request.Visit(e.Attr("href"))) })
	require.NoError(t, c.Visit(service.URL+"/"))
	c.Wait()
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-3, fake.Status(t, queue).Available)
}

func TestARefusedPageIsVisitedAgainInATurnOfItsOwn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(call int, w http.ResponseWriter, _ *http.Request) {
		if call <= 2 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	c := example.NewCollector(t.Context(), queue)
	var seen atomic.Int64
	c.OnResponse(func(*upstream.Response) { seen.Add(1) })
	require.NoError(t, c.Visit(service.URL))
	c.Wait()
	assert.EqualValues(t, 1, seen.Load())
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-3, fake.Status(t, queue).Available)
}

func TestASiteThatNeverAnswersIsLeft(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c := example.NewCollector(t.Context(), fairlimittest.New(t, fairlimit.PerHour(10)))
	require.NoError(t, c.Visit(service.URL))
	c.Wait()
	assert.Len(t, service.Calls(), 1+3)
}

func TestA429PausesAllCrawlers(t *testing.T) {
	t.Parallel()
	service := fake.StartBusy(t, "Retry-After", "600")
	server := fairlimittest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the first one's retry is refused, and the second's first visit
		c := example.NewCollector(ctx, server.Queue(t, "site", fairlimit.PerHour(10)))
		refused := collect(c)
		require.NoError(t, c.Visit(service.URL))
		c.Wait()
		require.ErrorIs(t, refused(), fairlimit.ErrPaused)
	}
	assert.Len(t, service.Calls(), 1)
}

func TestAPageWaitsForAsLongAsCtxAllows(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(int, http.ResponseWriter, *http.Request) {})
	queue := fairlimittest.New(t, fairlimit.Every(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := example.NewCollector(ctx, queue)
	for page := range 2 {
		require.NoError(t, c.Visit(fmt.Sprint(service.URL, "/", page)))
	}
	fairlimittest.WaitFor(t, queue, 1)
	require.Eventually(t, func() bool { return len(service.Calls()) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	c.Wait()
	assert.Len(t, service.Calls(), 1)
	assert.Zero(t, fake.Status(t, queue).Queued, "its turn was given back")
}

// TestCollysTimeoutCountsTheWait is why the example sets none.
func TestCollysTimeoutCountsTheWait(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(int, http.ResponseWriter, *http.Request) {})
	c := upstream.NewCollector(upstream.AllowURLRevisit())
	c.WithTransport(&httplimit.Transport{Limiter: fairlimittest.New(t, fairlimit.Every(time.Minute))})
	require.NoError(t, c.Visit(service.URL))
	require.ErrorAs(t, c.Visit(service.URL), new(*fairlimit.RefusedError))
	assert.Len(t, service.Calls(), 1)
}

// collect returns what gathers the errors of the collector.
func collect(c *upstream.Collector) func() error {
	var (
		mu  sync.Mutex
		all error
	)
	c.OnError(func(_ *upstream.Response, err error) {
		mu.Lock()
		defer mu.Unlock()
		all = errors.Join(all, err)
	})
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}
