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
	"github.com/fairlimit/fairlimit/fairlimittest"
)

func get(ctx context.Context, queue *fairlimit.Queue, service *fake.Service) error {
	resp, err := example.Get(ctx, queue, service.URL)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestEachTryTakesATurn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(call int, w http.ResponseWriter, _ *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	require.NoError(t, get(t.Context(), queue, service))
	assert.Len(t, service.Calls(), 2)
	assert.Equal(t, 10-2, fake.Status(t, queue).Available)
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	service := fake.StartBusy(t, "Retry-After", "600")
	server := fairlimittest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the second try of the first, and the first of the second, come too late
		err := get(ctx, server.Queue(t, "rates", fairlimit.PerHour(10)), service)
		require.ErrorIs(t, err, fairlimit.ErrPaused)
	}
	assert.Len(t, service.Calls(), 1)
	assert.NoError(t, ctx.Err(), "nobody waited for the deadline")
}

func TestATurnAfterTheDeadlineIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(int, http.ResponseWriter, *http.Request) {})
	refusals := 0
	queue := fairlimittest.New(t, fairlimit.PerHour(1),
		fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { refusals++ }}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, get(ctx, queue, service))
	require.ErrorAs(t, get(ctx, queue, service), new(*fairlimit.RefusedError))
	assert.Equal(t, 1, refusals)
	assert.Len(t, service.Calls(), 1)
}

func TestATurnFurtherThanMaxWaitIsTriedWhenItWouldHaveCome(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(int, http.ResponseWriter, *http.Request) {})
	refusals := 0
	queue := fairlimittest.New(t, fairlimit.Every(time.Second), fairlimit.WithMaxWait(50*time.Millisecond),
		fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { refusals++ }}))
	require.NoError(t, get(t.Context(), queue, service))
	require.NoError(t, get(t.Context(), queue, service))
	calls := service.Calls()
	require.Len(t, calls, 2)
	assert.NotZero(t, refusals)
	assert.GreaterOrEqual(t, calls[1].Sub(calls[0]), 900*time.Millisecond)
}
