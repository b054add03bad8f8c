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
	u := serve(t, nil)
	l := limiter(t, fairlimit.PerHour(2))
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
}

func TestTheRequestIsHandedOnAsItIs(t *testing.T) {
	body := &closing{Reader: strings.NewReader("ping")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.example/x", body)
	require.NoError(t, err)
	req.Header.Set("X-Mine", "1")
	before := *req
	headers := req.Header.Clone()
	want := &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}
	transport := &httplimit.Transport{
		Limiter: limiter(t, fairlimit.PerHour(5)),
		Base: sender(func(sent *http.Request) (*http.Response, error) {
			assert.Same(t, body, sent.Body)
			assert.Equal(t, req.URL, sent.URL)
			assert.Equal(t, headers, sent.Header)
			want.Request = sent
			return want, nil
		}),
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	assert.Same(t, want, resp)
	assert.Same(t, req, resp.Request)
	assert.Equal(t, before, *req)
	assert.Equal(t, headers, req.Header)
	assert.Zero(t, body.closed.Load(), "that is for those who send it")

	failed := errors.New("no route")
	transport.Base = sender(func(*http.Request) (*http.Response, error) { return nil, failed })
	_, err = transport.RoundTrip(req)
	assert.Equal(t, failed, err)
}

// TestWhatIsNotSentHasItsBodyClosed goes through all that can go wrong before a
// request is sent. What a gate refuses is tested there.
func TestWhatIsNotSentHasItsBodyClosed(t *testing.T) {
	q := counting(t, 10)
	only := waiter(func(context.Context) error { t.Error("asked for a permit"); return nil })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one := func(*http.Request) int { return 1 }
	type transport = httplimit.Transport
	for name, test := range map[string]struct {
		transport *transport
		ctx       context.Context
		want      error
	}{
		"no limiter":            {&transport{}, t.Context(), fairlimit.ErrInvalidOption},
		"a negative MaxPause":   {&transport{Limiter: q, MaxPause: -1}, t.Context(), fairlimit.ErrInvalidOption},
		"a request that is off": {&transport{Limiter: q}, ended, context.Canceled},
		"amounts of nothing":    {&transport{Amounts: tokens(1)}, t.Context(), fairlimit.ErrInvalidOption},
		"amounts of permits":    {&transport{Limiter: only, Amounts: tokens(1)}, t.Context(), fairlimit.ErrUnsupported},
		"amounts and permits": {
			&transport{Limiter: q, Amounts: tokens(1), Permits: one}, t.Context(), fairlimit.ErrInvalidOption,
		},
		"amounts above the quota": {&transport{Limiter: q, Amounts: tokens(1001)}, t.Context(), fairlimit.ErrExceedsQuota},
	} {
		t.Run(name, func(t *testing.T) {
			test.transport.Base = sender(func(*http.Request) (*http.Response, error) {
				t.Error("it was sent")
				return nil, assert.AnError
			})
			body := &closing{Reader: strings.NewReader("ping")}
			req, err := http.NewRequestWithContext(test.ctx, http.MethodPost, "http://upstream.example", body)
			require.NoError(t, err)
			_, err = test.transport.RoundTrip(req)
			require.ErrorIs(t, err, test.want)
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
	assert.Equal(t, 10, status(t, q).Available)
	assert.Equal(t, 1000, left(t, q))
}

func TestARequestCostsItsPermits(t *testing.T) {
	u := serve(t, nil)
	l := limiter(t, fairlimit.PerHour(10))
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
