package faults_test

import (
	"context"
	"crypto/tls"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestALostReplyConsumesOnceAtMostAndItsPermitsPassUnused(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: redistest.Cluster(t).Options().Addrs, ReadTimeout: time.Second,
	})
	t.Cleanup(func() { redistest.Close(cluster) })
	alone, faults := client(t, redistest.StartServer(t).Addr(), time.Second)
	for rdb, faults := range map[redis.UniversalClient]*redistest.Faults{
		alone: faults, cluster: redistest.Break(cluster),
	} {
		for name, e := range engines {
			for how, available := range map[redistest.Loss]int{
				redistest.Unsent: 9, redistest.Unanswered: 8, redistest.Cut: 8,
			} {
				l := limiterOn(t, rdb, e)
				require.NoError(t, l.Wait(t.Context()), "the script is loaded")
				sent := faults.Scripts()
				faults.Lose(how)
				err := l.Wait(t.Context())
				require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, name)
				require.NotErrorIs(t, err, context.DeadlineExceeded, name)
				require.Equal(t, sent+1, faults.Scripts(), "%s: it is not sent again", name)
				require.Equal(t, available, status(t, l).Available, name)
			}
		}
	}
}

// A certificate that is not trusted, or missing, is an error and never a turn. So
// is a port that speaks another language.
func TestALimiterWorksOverTLSAndAConnectionThatCannotBeMadeIsNamedWithAHint(t *testing.T) {
	t.Parallel()
	server, secure, config := redistest.StartTLSServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: secure, TLSConfig: config})
	defer redistest.Close(rdb)
	require.NoError(t, limiter(t, rdb, fairlimit.PerHour(5)).Wait(t.Context()))
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close) // once the parallel parts are over
	for name, c := range map[string]struct {
		options redis.Options
		hint    string
	}{
		"no certificate": {
			redis.Options{Addr: secure, TLSConfig: &tls.Config{RootCAs: config.RootCAs}}, "certificate",
		},
		"an unknown authority":     {redis.Options{Addr: secure, TLSConfig: &tls.Config{}}, "unknown authority"},
		"plain text to a TLS port": {redis.Options{Addr: secure}, "rediss://"},
		"TLS to a plain port":      {redis.Options{Addr: server.Addr(), TLSConfig: config}, "redis://"},
		"a web server":             {redis.Options{Addr: web.Listener.Addr().String()}, "an HTTP server, not Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.DialerRetries = 1
			rdb := redis.NewClient(&c.options)
			defer redistest.Close(rdb)
			err := limiter(t, rdb, fairlimit.PerHour(5)).Wait(t.Context())
			require.True(t, unavailable(err), err)
			require.ErrorContains(t, err, c.options.Addr)
			require.ErrorContains(t, err, c.hint)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "nobody's deadline has passed")
		})
	}
}
