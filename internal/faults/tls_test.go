package faults_test

import (
	"crypto/tls"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestALimiterWorksOverTLS(t *testing.T) {
	_, addr, config := redistest.StartTLSServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
	defer redistest.Close(rdb)
	for name, e := range engines() {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.Every(20*time.Millisecond), e)
		require.NoError(t, err, name)
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { assert.NoError(t, l.Wait(t.Context()), name) })
		}
		wg.Wait()
		assert.GreaterOrEqual(t, time.Since(start), 80*time.Millisecond, name)
		require.NoError(t, l.Reset(t.Context()), name)
	}
	t.Logf("TLS %x", config.MinVersion)
}

func TestACertificateThatIsNotTrustedIsAnErrorAndNeverLeave(t *testing.T) {
	_, addr, config := redistest.StartTLSServer(t)
	mine, trusted := config.Certificates, config.RootCAs
	for name, c := range map[string]struct {
		config *tls.Config
		want   error
	}{
		// TLS 1.3 tells it after it has spoken.
		"a client without a certificate": {&tls.Config{RootCAs: trusted}, fairlimit.ErrOutcomeUnknown},
		"a server that is not trusted":   {&tls.Config{Certificates: mine}, fairlimit.ErrUnreachable},
		"a server that is somebody else": {
			&tls.Config{Certificates: mine, RootCAs: trusted, ServerName: "redis.example.com"},
			fairlimit.ErrUnreachable,
		},
	} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: c.config, DialerRetries: 1})
		l := limiter(t, rdb, fairlimit.PerHour(5))
		allowed, err := l.Allow(t.Context())
		require.ErrorIs(t, err, c.want, name)
		require.False(t, allowed, name)
		t.Logf("%s: %v", name, err)
		require.NoError(t, rdb.Close())
	}
}
