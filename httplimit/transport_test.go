package httplimit_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.Alone
	status  = limitertest.Status
)

type (
	pausing = limitertest.Pausing
	waiter  = limitertest.Waiter
)

// upstream is a base that counts what it is sent. Unless the test says what to
// answer, it answers 200.
type upstream struct {
	code   int
	header map[string]string
	sent   int
}

func (u *upstream) RoundTrip(*http.Request) (*http.Response, error) {
	u.sent++
	resp := &http.Response{
		StatusCode: cmp.Or(u.code, http.StatusOK), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("slow down")),
	}
	for key, value := range u.header {
		resp.Header.Set(key, value)
	}
	return resp, nil
}

// sender is a base in the test's hands.
type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// get returns the status and the body.
func get(t *testing.T, transport *httplimit.Transport, url string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: transport}).Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestARequestThatWouldComeTooLateIsNeverSent(t *testing.T) {
	u, l := &upstream{}, limiter(t, fairlimit.PerHour(2))
	c := &http.Client{Transport: &httplimit.Transport{Limiter: l, Base: u}, Timeout: time.Minute}
	for range 2 {
		resp, err := c.Get("http://upstream")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	_, err := c.Get("http://upstream")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var refused *fairlimit.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Greater(t, refused.Wait, 50*time.Minute)
	assert.True(t, os.IsTimeout(err), "as of any request that is out of time")
	assert.Equal(t, 2, u.sent)
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

	transport.Base = sender(func(*http.Request) (*http.Response, error) { return nil, assert.AnError })
	_, err = transport.RoundTrip(req)
	assert.Equal(t, assert.AnError, err)
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
	u, l := &upstream{}, limiter(t, fairlimit.PerHour(10))
	transport := &httplimit.Transport{Limiter: l, Base: u, Permits: func(r *http.Request) int {
		return len(r.URL.Query()["id"])
	}}
	for query, left := range []int{10, 9, 7} { // 0 permits cost nothing
		get(t, transport, "http://upstream?"+strings.Repeat("id=1&", query))
		assert.Equal(t, left, status(t, l).Available)
	}
	assert.Equal(t, 3, u.sent)
}

func TestIdleConnectionsOfTheBaseAreClosed(t *testing.T) {
	base := &idle{}
	(&httplimit.Transport{Base: base}).CloseIdleConnections()
	assert.True(t, base.closed)
	(&httplimit.Transport{Base: sender(nil)}).CloseIdleConnections()
}

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
