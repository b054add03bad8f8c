package faults_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAPortThatSpeaksAnotherLanguageIsNamedWithAHint(t *testing.T) {
	t.Parallel()
	server, secure, config := redistest.StartTLSServer(t)
	for name, c := range map[string]struct {
		options redis.Options
		hint    string
	}{
		"plain text to a TLS port": {redis.Options{Addr: secure}, "rediss://"},
		"TLS to a plain port":      {redis.Options{Addr: server.Addr(), TLSConfig: config}, "redis://"},
		"an unknown authority":     {redis.Options{Addr: secure, TLSConfig: &tls.Config{}}, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.DialerRetries = 1
			rdb := redis.NewClient(&c.options)
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerHour(5))
			err := l.Wait(t.Context())
			require.ErrorContains(t, err, "Redis at "+c.options.Addr)
			require.ErrorContains(t, err, c.hint)
			_, err = l.Status(t.Context())
			require.ErrorContains(t, err, c.hint)
		})
	}
}

// Who has had answers has the right port.
func TestARedisThatStopsAnsweringIsNamedWithoutAHint(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 100 * time.Millisecond})
	defer redistest.Close(rdb)
	l := limiter(t, rdb, fairlimit.PerHour(5))
	require.NoError(t, l.Wait(t.Context()))
	server.Pause()
	err := l.Wait(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	require.ErrorContains(t, err, server.Addr())
	require.NotContains(t, err.Error(), "TLS")
}
