package backoff_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/backoff"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func client(t testing.TB, p *fake.Place) func(context.Context) error {
	queue := p.Queue(t)
	return func(ctx context.Context) error { return get(ctx, queue, p.URL) }
}

func get(ctx context.Context, queue *fairlimit.Queue, url string) error {
	resp, err := example.Get(ctx, queue, url)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestEachTryTakesATurn(t *testing.T) {
	t.Parallel()
	fake.EachAttemptTakesATurn(t, "service", client, fake.OK)
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	fake.A429PausesEverybody(t, client, "Retry-After", "600")
}

func TestATurnAfterTheDeadlineIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	fake.ARefusedTurnEndsTheCall(t, client, fake.OK)
}

func TestATurnFurtherThanMaxWaitIsTriedWhenItWouldHaveCome(t *testing.T) {
	t.Parallel()
	p := fake.NewPlace(t, fairlimit.Every(time.Second), func(int, http.ResponseWriter, *http.Request) {})
	refusals := 0
	queue := p.Redis.Queue(t, "service", p.Quota, fairlimit.WithMaxWait(50*time.Millisecond),
		fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { refusals++ }}))
	require.NoError(t, get(t.Context(), queue, p.URL))
	require.NoError(t, get(t.Context(), queue, p.URL))
	calls := p.Calls()
	require.Len(t, calls, 2)
	assert.NotZero(t, refusals)
	assert.GreaterOrEqual(t, calls[1].Sub(calls[0]), 900*time.Millisecond)
}
