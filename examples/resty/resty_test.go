package resty_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	upstream "resty.dev/v3"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/resty"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

func newClient(t *testing.T, queue *fairlimit.Queue, service *fake.Service) *upstream.Client {
	t.Helper()
	client := example.NewClient(queue, service.URL)
	t.Cleanup(func() {
		client.Client().CloseIdleConnections()
		assert.NoError(t, client.Close())
	})
	return client
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(call int, w http.ResponseWriter, _ *http.Request) {
		if call <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	queue := fairlimittest.New(t, fairlimit.PerHour(10))
	resp, err := newClient(t, queue, service).R().SetContext(t.Context()).Get("/rates")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode())
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-3, fake.Status(t, queue).Available)
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	service := fake.StartBusy(t, "Retry-After", "600")
	server := fairlimittest.Start(t)
	first, second := server.Queue(t, "rates", fairlimit.PerHour(10)), server.Queue(t, "rates", fairlimit.PerHour(10))
	resp, err := newClient(t, first, service).R().SetContext(t.Context()).SetRetryCount(0).Get("/rates")
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = newClient(t, second, service).R().SetContext(ctx).Get("/rates")
	require.ErrorIs(t, err, fairlimit.ErrPaused)
	assert.Len(t, service.Calls(), 1)
}

func TestARefusedTurnEndsTheCall(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, func(int, http.ResponseWriter, *http.Request) {})
	var refused atomic.Int64
	queue := fairlimittest.New(t, fairlimit.PerHour(1),
		fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { refused.Add(1) }}))
	client := newClient(t, queue, service)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.R().SetContext(ctx).Get("/rates")
	require.NoError(t, err)
	_, err = client.R().SetContext(ctx).Get("/rates")
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	assert.Len(t, service.Calls(), 1)
	assert.EqualValues(t, 1, refused.Load(), "resty did not ask again")
}
