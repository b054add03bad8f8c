package colly_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	upstream "github.com/gocolly/colly/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/colly"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// client visits the site, and all pages that it links to.
func client(t testing.TB, p *fake.Place) func(context.Context) error {
	queue := p.Queue(t)
	return func(ctx context.Context) error {
		c := example.NewCollector(ctx, queue)
		c.OnHTML("a[href]", func(e *upstream.HTMLElement) { assert.NoError(t, e.Request.Visit(e.Attr("href"))) })
		var (
			mu  sync.Mutex
			all error
		)
		c.OnError(func(resp *upstream.Response, err error) {
			mu.Lock()
			defer mu.Unlock()
			if resp.StatusCode == 0 { // an answer is visited again
				all = errors.Join(all, err)
			}
		})
		require.NoError(t, c.Visit(p.URL))
		c.Wait()
		return all
	}
}

func TestARefusedPageIsVisitedAgainInATurnOfItsOwn(t *testing.T) {
	t.Parallel()
	fake.EachAttemptTakesATurn(t, "service", client, fake.OK)
}

func TestA429PausesAllCrawlers(t *testing.T) {
	t.Parallel()
	fake.A429PausesEverybody(t, client, "Retry-After", "600")
}

func TestEveryPageTakesATurn(t *testing.T) {
	t.Parallel()
	p := fake.NewPlace(t, fairlimit.PerHour(10), func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			_, _ = fmt.Fprint(w, `<a href="/one">1</a><a href="/two">2</a>`)
		}
	})
	require.NoError(t, client(t, p)(t.Context()))
	assert.Len(t, p.Calls(), 3)
	assert.Equal(t, 10-3, fake.Status(t, p.Queue(t)).Available)
}

func TestASiteThatNeverAnswersIsLeft(t *testing.T) {
	t.Parallel()
	p := fake.NewPlace(t, fairlimit.PerHour(10), func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	require.NoError(t, client(t, p)(t.Context()))
	assert.Len(t, p.Calls(), 1+3)
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
