package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// upstream is a server that counts what reaches it. Unless the test says what
// to answer, it answers 200.
type upstream struct {
	*httptest.Server
	reached atomic.Int64
}

func serve(t *testing.T, answer http.HandlerFunc) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.reached.Add(1)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// refuse answers with the status, the headers, and the body "slow down".
func refuse(code int, headers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for key, value := range headers {
			w.Header().Set(key, value)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "slow down")
	}
}

// client sends through the Transport, on connections that end with the test.
func client(t *testing.T, transport *httplimit.Transport) *http.Client {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	if transport.Base == nil {
		transport.Base = base
	}
	return &http.Client{Transport: transport}
}

// get returns the status and the body.
func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestARequestThatWouldComeTooLateIsNeverSent(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		u := serve(t, nil)
		l := limiter(t, rdb, fairlimit.PerHour(2))
		c := client(t, &httplimit.Transport{Limiter: l})
		for range 2 {
			code, _ := get(t, c, u.URL)
			assert.Equal(t, http.StatusOK, code)
		}
		c.Timeout = time.Minute
		_, err := c.Get(u.URL)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var refused *fairlimit.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Greater(t, refused.Wait, 50*time.Minute)
		assert.True(t, os.IsTimeout(err), "as of any request that is out of time")
		assert.EqualValues(t, 2, u.reached.Load())
		assert.Zero(t, status(t, l).Queued)
	})
}

func TestEachHopOfARedirectTakesATurn(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/there", http.StatusFound)
			}
		})
		l := limiter(t, rdb, fairlimit.PerHour(10))
		code, _ := get(t, client(t, &httplimit.Transport{Limiter: l}), u.URL)
		assert.Equal(t, http.StatusOK, code)
		assert.Equal(t, 8, status(t, l).Available)
	})
}

func TestTheRequestIsHandedOnAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		body := &closing{Reader: strings.NewReader("ping")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.example/x", body)
		require.NoError(t, err)
		req.Header.Set("X-Mine", "1")
		before := *req
		headers := req.Header.Clone()
		want := &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}
		transport := &httplimit.Transport{
			Limiter: limiter(t, rdb, fairlimit.PerHour(5)),
			Base: sender(func(sent *http.Request) (*http.Response, error) {
				assert.Same(t, req, sent)
				return want, nil
			}),
		}
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		assert.Same(t, want, resp)
		assert.Equal(t, before, *req)
		assert.Equal(t, headers, req.Header)
		assert.Zero(t, body.closed.Load(), "that is for those who send it")

		failed := errors.New("no route")
		transport.Base = sender(func(*http.Request) (*http.Response, error) { return nil, failed })
		_, err = transport.RoundTrip(req)
		assert.Equal(t, failed, err)
	})
}

// TestWhoeverIsRefusedHasItsBodyClosed goes through all that can go wrong
// before a request is sent.
func TestWhoeverIsRefusedHasItsBodyClosed(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		l := limiter(t, rdb, fairlimit.PerHour(5))
		only := waiter(func(context.Context) error { t.Error("asked for one permit"); return nil })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		permits := func(n int) func(*http.Request) int { return func(*http.Request) int { return n } }
		type transport = httplimit.Transport
		for name, test := range map[string]struct {
			transport *transport
			ctx       context.Context
			want      error
		}{
			"no limiter":            {&transport{}, nil, fairlimit.ErrInvalidOption},
			"a negative MaxPause":   {&transport{Limiter: l, MaxPause: -1}, nil, fairlimit.ErrInvalidOption},
			"negative permits":      {&transport{Limiter: l, Permits: permits(-1)}, nil, fairlimit.ErrInvalidPermits},
			"more than ever":        {&transport{Limiter: l, Permits: permits(6)}, nil, fairlimit.ErrExceedsQuota},
			"several, one at most":  {&transport{Limiter: only, Permits: permits(2)}, nil, fairlimit.ErrUnsupported},
			"a request that is off": {&transport{Limiter: l}, ended, context.Canceled},
		} {
			t.Run(name, func(t *testing.T) {
				test.transport.Base = sender(func(*http.Request) (*http.Response, error) {
					t.Error("it was sent")
					return nil, assert.AnError
				})
				ctx := test.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				body := &closing{Reader: strings.NewReader("ping")}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.example", body)
				require.NoError(t, err)
				_, err = test.transport.RoundTrip(req)
				require.ErrorIs(t, err, test.want)
				assert.EqualValues(t, 1, body.closed.Load())
			})
		}
		assert.Equal(t, 5, status(t, l).Available)
	})
}

func TestARequestCostsItsPermits(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		u := serve(t, nil)
		l := limiter(t, rdb, fairlimit.PerHour(10))
		c := client(t, &httplimit.Transport{Limiter: l, Permits: func(r *http.Request) int {
			return len(r.URL.Query()["id"])
		}})
		get(t, c, u.URL+"?id=1&id=2&id=3")
		assert.Equal(t, 7, status(t, l).Available)
		get(t, c, u.URL+"?id=1")
		assert.Equal(t, 6, status(t, l).Available)
		get(t, c, u.URL)
		assert.Equal(t, 6, status(t, l).Available, "0 permits cost nothing")
		assert.EqualValues(t, 3, u.reached.Load())
	})
}

func TestIdleConnectionsOfTheBaseAreClosed(t *testing.T) {
	base := &idle{}
	(&http.Client{Transport: &httplimit.Transport{Base: base}}).CloseIdleConnections()
	assert.True(t, base.closed)
	(&http.Client{Transport: &httplimit.Transport{Base: sender(nil)}}).CloseIdleConnections()
}

// sender is a base in the test's hands.
type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

type idle struct {
	sender
	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

// closing counts how often a body is closed.
type closing struct {
	io.Reader
	closed atomic.Int64
}

func (c *closing) Close() error {
	c.closed.Add(1)
	return nil
}
