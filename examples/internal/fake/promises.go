package fake

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

// Place is where a client runs: a service that it calls, and a Redis that it
// shares with the other clients of the service.
type Place struct {
	*Service
	Redis   *fairlimittest.Server
	Quota   fairlimit.Quota
	refused atomic.Int64
}

// Client makes the client of an example and returns a call of it.
type Client func(t testing.TB, p *Place) (call func(ctx context.Context) error)

// NewPlace is one with a service that answers as [Start] says.
func NewPlace(
	t testing.TB, quota fairlimit.Quota, answer func(call int, w http.ResponseWriter, r *http.Request),
) *Place {
	return &Place{Service: Start(t, answer), Redis: fairlimittest.Start(t), Quota: quota}
}

// Queue is for a client that is given a queue. A busy machine misses no turn.
func (p *Place) Queue(t testing.TB) *fairlimit.Queue {
	return p.Redis.Queue(t, "service", p.Quota, fairlimit.WithGuard(0),
		fairlimit.WithTrace(&fairlimit.Trace{Refused: func(int, error) { p.refused.Add(1) }}))
}

// EachAttemptTakesATurn has the first call fail, so that the client makes
// another. The queue of the name is the client's.
func EachAttemptTakesATurn(t *testing.T, name string, client Client, answer http.HandlerFunc) {
	p := NewPlace(t, fairlimit.PerHour(10), func(call int, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, r)
	})
	require.NoError(t, client(t, p)(t.Context()))
	assert.Len(t, p.Calls(), 2)
	assert.Equal(t, 10-2, Status(t, p.Redis.Queue(t, name, p.Quota)).Available)
}

// A429PausesEverybody has a service that wants to be left alone, by a header. A
// client's own retry is refused, if it makes one. So are all calls of another.
func A429PausesEverybody(t *testing.T, client Client, header, value string) {
	p := NewPlace(t, fairlimit.PerHour(10), func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client(t, p)(ctx); err != nil { // its retry
		require.ErrorIs(t, err, fairlimit.ErrPaused)
	}
	require.ErrorIs(t, client(t, p)(ctx), fairlimit.ErrPaused)
	assert.Len(t, p.Calls(), 1)
	assert.NoError(t, ctx.Err(), "nobody waited for the deadline")
}

// ARefusedTurnEndsTheCall is for a client that is given a queue. It must not
// take the refusal for an error of the service, and ask again.
func ARefusedTurnEndsTheCall(t *testing.T, client Client, answer http.HandlerFunc) {
	p := NewPlace(t, fairlimit.PerHour(1), func(_ int, w http.ResponseWriter, r *http.Request) { answer(w, r) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := client(t, p)
	require.NoError(t, call(ctx))
	require.ErrorAs(t, call(ctx), new(*fairlimit.RefusedError))
	assert.Len(t, p.Calls(), 1)
	assert.EqualValues(t, 1, p.refused.Load())
}

// OK answers yes, without a body.
func OK(http.ResponseWriter, *http.Request) {}
