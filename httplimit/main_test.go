package httplimit_test

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const url = "http://upstream.example/x"

// rig is a Transport between a queue of a thousand calls and tokens an hour,
// whose pauses are only written down, and an upstream.
type rig struct {
	*httplimit.Transport
	queue    *limitertest.Pausing
	upstream *upstream
	told     error // what OnError heard last
}

func newRig(t *testing.T, opts ...fairlimit.Option) *rig {
	t.Helper()
	opts = append(opts, fairlimit.WithUnit("tokens", fairlimit.PerHour(1000)))
	r := &rig{
		queue:    &limitertest.Pausing{Queue: limitertest.Alone(t, fairlimit.PerHour(1000), opts...)},
		upstream: &upstream{},
	}
	r.Transport = &httplimit.Transport{
		Limiter: r.queue, Base: r.upstream, OnError: func(err error) { r.told = err },
	}
	return r
}

// bubble runs the test in a bubble, with a rig.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t)) })
}

// each is bubble for each case.
func each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, r *rig, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T, r *rig) { test(t, r, c) }) })
	}
}

// get returns the status and the body.
func (r *rig) get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: r.Transport}).Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// left is how many calls and tokens can be had, once settlements are over.
func (r *rig) left(t *testing.T) (calls, tokens int) {
	t.Helper()
	time.Sleep(time.Second / 10)
	s := limitertest.Status(t, r.queue)
	return s.Available, s.Units["tokens"].Available
}

// upstream is a base that counts what it is sent, and answers as it is set up: 200
// and "slow down", unless it is.
type upstream struct {
	code   int
	header http.Header
	body   io.ReadCloser
	sent   int
}

func (u *upstream) RoundTrip(*http.Request) (*http.Response, error) {
	u.sent++
	body := cmp.Or(u.body, io.NopCloser(strings.NewReader("slow down")))
	return &http.Response{StatusCode: cmp.Or(u.code, http.StatusOK), Header: u.header, Body: body}, nil
}

// sender is a base in the test's hands.
type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// headers makes a header of names and values.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}
