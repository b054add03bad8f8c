package kubelimit_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/kubelimit"
)

// upstream is an API server that counts its requests, and answers with nothing.
type upstream struct{ reached int }

func (u *upstream) RoundTrip(*http.Request) (*http.Response, error) {
	u.reached++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// apiServer is a client of one.
func apiServer(t *testing.T, config *rest.Config) (*rest.RESTClient, *upstream) {
	t.Helper()
	u := &upstream{}
	config.Host, config.APIPath, config.Transport = "http://api", "/api", u
	config.ContentConfig = rest.ContentConfig{
		GroupVersion:         &schema.GroupVersion{Version: "v1"},
		NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion(),
	}
	client, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	return client, u
}

func TestAClientWaitsForItsTurn(t *testing.T) {
	quota := fairlimit.PerHour(2)
	l := limiter(t, quota)
	client, u := apiServer(t, &rest.Config{RateLimiter: &kubelimit.RateLimiter{Limiter: l, Quota: quota}})
	for range 2 {
		require.NoError(t, client.Get().Resource("pods").Do(t.Context()).Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := client.Get().Resource("pods").Do(ctx).Error()
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	assert.Equal(t, 2, u.reached)
	assert.Zero(t, status(t, l).Queued)
}

func TestAWatchTakesATurnOfATransportOnly(t *testing.T) {
	for name, test := range map[string]struct {
		config func(l fairlimit.Limiter) *rest.Config
		turns  int
	}{
		"a RateLimiter": {func(l fairlimit.Limiter) *rest.Config {
			return &rest.Config{RateLimiter: &kubelimit.RateLimiter{Limiter: l}}
		}, 1},
		"a Transport": {func(l fairlimit.Limiter) *rest.Config {
			config := &rest.Config{QPS: -1}
			config.Wrap(func(base http.RoundTripper) http.RoundTripper {
				return &httplimit.Transport{Limiter: l, Base: base}
			})
			return config
		}, 1 + 5},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, fairlimit.PerHour(10))
			client, u := apiServer(t, test.config(l))
			require.NoError(t, client.Get().Resource("pods").Do(t.Context()).Error())
			for range 5 {
				watch, err := client.Get().Resource("pods").Watch(t.Context())
				if err == nil { // this server answers with nothing
					watch.Stop()
				}
			}
			assert.Equal(t, 6, u.reached)
			assert.Equal(t, 10-test.turns, status(t, l).Available)
		})
	}
}

func TestTryAcceptTakesATurnNowAndAcceptSleepsUntilIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, fairlimit.Every(time.Minute))
		r := &kubelimit.RateLimiter{Limiter: l, OnError: func(err error) { t.Error(err) }}
		start := time.Now()
		assert.True(t, r.TryAccept())
		assert.False(t, r.TryAccept())
		assert.Zero(t, status(t, l).Queued)
		r.Accept()
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// Nobody goes while Redis refuses, and all go again once it does not.
func TestNobodyGoesWhileRedisFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, told := redistest.Mini(t), []error{}
		l := limitertest.New(t, server.Client, fairlimit.PerHour(5))
		server.SetError("NOAUTH")
		r := &kubelimit.RateLimiter{Limiter: l, OnError: func(err error) { told = append(told, err) }}
		require.ErrorContains(t, r.Wait(t.Context()), "NOAUTH")
		assert.False(t, r.TryAccept())
		began := time.Now()
		time.AfterFunc(2500*time.Millisecond, func() { server.SetError("") })
		r.Accept()
		assert.Equal(t, 3*time.Second, time.Since(began), "it asks every second")
		require.Len(t, told, 1+3)
		require.ErrorContains(t, told[3], "NOAUTH")
		assert.Equal(t, 4, status(t, l).Available)
	})
}

func TestStopEndsAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, fairlimit.PerHour(1))
		require.NoError(t, l.Wait(t.Context()))
		r := &kubelimit.RateLimiter{Limiter: l, OnError: func(err error) { t.Error(err) }}
		waited, accepted := make(chan error, 1), make(chan struct{})
		go func() { waited <- r.Wait(t.Context()) }()
		go func() { r.Accept(); close(accepted) }()
		synctest.Wait()
		require.Equal(t, 2, status(t, l).Queued)

		r.Stop()
		err := <-waited
		require.ErrorIs(t, err, kubelimit.ErrStopped)
		require.ErrorIs(t, err, context.Canceled)
		<-accepted
		synctest.Wait()
		require.Zero(t, status(t, l).Queued)

		r.Stop()
		require.NoError(t, l.Reset(t.Context()))
		require.ErrorIs(t, r.Wait(t.Context()), kubelimit.ErrStopped)
		r.Accept()
		assert.False(t, r.TryAccept())
		assert.Equal(t, 1, status(t, l).Available)
	})
}

func TestStopIsToldEvenIfTheLimiterDoesNotSayWhy(t *testing.T) {
	r := &kubelimit.RateLimiter{Limiter: forever{}}
	time.AfterFunc(10*time.Millisecond, r.Stop)
	require.ErrorIs(t, r.Wait(t.Context()), kubelimit.ErrStopped)
}

// forever is a limiter that tells ctx's error and not its cause, as a
// rate.Limiter does.
type forever struct{ fairlimit.Limiter }

func (forever) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestQPSIsTheQuotas(t *testing.T) {
	for want, quota := range map[float32]fairlimit.Quota{
		0.5: fairlimit.PerMinute(30), 1000: fairlimit.Every(time.Millisecond), 0: {},
	} {
		assert.Equal(t, want, (&kubelimit.RateLimiter{Quota: quota}).QPS())
	}
}

func TestWithoutALimiterOrACtxNobodyGoes(t *testing.T) {
	var told error
	var none context.Context
	r := &kubelimit.RateLimiter{OnError: func(err error) { told = err }}
	require.ErrorIs(t, r.Wait(none), fairlimit.ErrNilContext)
	require.ErrorIs(t, r.Wait(t.Context()), fairlimit.ErrInvalidOption)
	assert.False(t, r.TryAccept())
	require.ErrorIs(t, told, fairlimit.ErrInvalidOption)
	assert.False(t, (&kubelimit.RateLimiter{}).TryAccept(), "nobody has to listen")
}
