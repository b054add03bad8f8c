package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestALimiterWorksOverTLS(t *testing.T) {
	t.Parallel()
	_, addr, config := redistest.StartTLSServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config})
	defer redistest.Close(rdb)
	for name, e := range engines() {
		l, err := fairlimit.New(rdb, redistest.Name(t), fairlimit.PerHour(5), e)
		require.NoError(t, err, name)
		require.NoError(t, l.Wait(t.Context()), name)
		require.Equal(t, 4, status(t, l).Available, name)
	}
}

// A certificate that is not trusted, or missing, is an error and never a turn.
// So is a port that speaks another language.
func TestAConnectionThatCannotBeMadeIsNamedWithAHint(t *testing.T) {
	t.Parallel()
	server, secure, config := redistest.StartTLSServer(t)
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close) // once the parallel parts are over
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	old := says(t, "<!DOCTYPE HTML>\n<html>Bad request syntax</html>\n")
	for name, c := range map[string]struct {
		options   redis.Options
		hint      string
		unreached bool // no Redis can have read the question
	}{
		// TLS 1.3 tells it after it has spoken.
		"no certificate": {redis.Options{Addr: secure, TLSConfig: &tls.Config{RootCAs: config.RootCAs}}, "", false},
		"somebody else": {redis.Options{Addr: secure, TLSConfig: &tls.Config{
			Certificates: config.Certificates, RootCAs: config.RootCAs, ServerName: "redis.example.com",
		}}, "redis.example.com", true},
		"plain text to a TLS port": {redis.Options{Addr: secure}, "rediss://", false},
		"TLS to a plain port":      {redis.Options{Addr: server.Addr(), TLSConfig: config}, "redis://", false},
		"an unknown authority":     {redis.Options{Addr: secure, TLSConfig: &tls.Config{}}, "unknown authority", true},
		"TLS to a silent port":     {redis.Options{Addr: silent.Addr().String(), TLSConfig: config}, "redis://", false},
		"a web server":             {redis.Options{Addr: web.Listener.Addr().String()}, "an HTTP server, not Redis", true},
		"an old web server":        {redis.Options{Addr: old}, "an HTTP server, not Redis", true},
		"TLS to a web server":      {redis.Options{Addr: old, TLSConfig: config}, "redis://", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.DialerRetries, c.options.DialTimeout = 1, time.Second
			rdb := redis.NewClient(&c.options)
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerHour(5))
			err := l.Wait(t.Context())
			require.ErrorContains(t, err, c.options.Addr)
			require.ErrorContains(t, err, c.hint)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "nobody's deadline has passed")
			require.Equal(t, c.unreached, errors.Is(err, fairlimit.ErrUnreachable), err)
			require.Equal(t, !c.unreached, errors.Is(err, fairlimit.ErrOutcomeUnknown), err)
			_, err = l.Status(t.Context())
			require.ErrorContains(t, err, c.hint)
		})
	}
}

// says is a port that answers whatever it is asked with a text, and hangs up.
func says(t *testing.T, text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// Who has had answers has the right port. Before, the end of a connection might
// be that of a TLS port.
func TestARedisThatStopsAnsweringIsNamedWithoutAHint(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.StartServer(t), redistest.StartProxy(t)
	l := limiter(t, proxy.Client(&redis.Options{Addr: server.Addr()}), fairlimit.PerHour(5))
	require.NoError(t, l.Wait(t.Context()))
	proxy.Lose(1, "evalsha", redistest.Unanswered)
	errs := make(chan error, 1)
	go func() { errs <- l.Wait(t.Context()) }()
	require.Eventually(t, func() bool { return proxy.Lost() == 1 }, 10*time.Second, time.Millisecond)
	proxy.HalfClose()
	err := <-errs
	require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, server.Addr())
	require.NotContains(t, err.Error(), "TLS")
}
