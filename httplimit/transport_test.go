package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

func TestARequestThatWouldComeTooLateIsNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		require.NoError(t, r.queue.WaitN(t.Context(), 1000))
		_, err := (&http.Client{Transport: r.Transport, Timeout: time.Minute}).Get(url)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, new(*fairlimit.RefusedError))
		assert.True(t, os.IsTimeout(err), "as of any request that is out of time")
		assert.Zero(t, r.upstream.sent)
	})
}

func TestTheRequestIsHandedOnAsItIs(t *testing.T) {
	body := &closing{Reader: strings.NewReader("ping")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	req.Header.Set("X-Mine", "1")
	before, header := *req, req.Header.Clone()
	want := &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}
	r := newRig(t)
	r.Base = sender(func(sent *http.Request) (*http.Response, error) {
		assert.Same(t, body, sent.Body)
		assert.Equal(t, req.URL, sent.URL)
		assert.Equal(t, header, sent.Header)
		want.Request = sent
		return want, nil
	})
	resp, err := r.RoundTrip(req)
	require.NoError(t, err)
	assert.Same(t, want, resp)
	assert.Same(t, req, resp.Request)
	assert.Equal(t, before, *req)
	assert.Equal(t, header, req.Header)
	assert.Zero(t, body.closed, "that is for those who send it")

	r.Base = sender(func(*http.Request) (*http.Response, error) { return nil, assert.AnError })
	_, err = r.RoundTrip(req)
	assert.Equal(t, assert.AnError, err)
}

// What else a gate refuses is tested there.
func TestWhatIsNotSentHasItsBodyClosed(t *testing.T) {
	for want, set := range map[error]func(*httplimit.Transport){
		fairlimit.ErrInvalidOption:  func(t *httplimit.Transport) { t.MaxPause = -1 },
		fairlimit.ErrInvalidPermits: func(t *httplimit.Transport) { t.Permits = func(*http.Request) int { return -1 } },
		fairlimit.ErrInvalidAmounts: func(t *httplimit.Transport) { t.Amounts = tokens(-1) },
	} {
		r, body := newRig(t), &closing{Reader: strings.NewReader("ping")}
		set(r.Transport)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		require.NoError(t, err)
		_, err = r.RoundTrip(req)
		require.ErrorIs(t, err, want)
		assert.Equal(t, 1, body.closed, want)
		assert.Zero(t, r.upstream.sent, want)
	}
}

func TestARequestCostsItsPermits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Permits = func(r *http.Request) int { return len(r.URL.Query()["id"]) }
		for query, want := range []int{1000, 999, 997} { // 0 permits cost nothing
			r.get(t, url+"?"+strings.Repeat("id=1&", query))
			calls, _ := r.left(t)
			assert.Equal(t, want, calls)
		}
		assert.Equal(t, 3, r.upstream.sent)

		r.Amounts = tokens(1)
		_, err := (&http.Client{Transport: r.Transport}).Get(url)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption, "Permits and Amounts")
	})
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
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}
