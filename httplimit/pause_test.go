package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

func TestARefusalPausesTheLimiter(t *testing.T) {
	type headers = map[string]string
	inSeconds := headers{"Retry-After": "30"}
	half, longest := []time.Duration{30 * time.Second}, []time.Duration{15 * time.Minute}
	for name, test := range map[string]struct {
		code    int
		headers headers
		want    []time.Duration
	}{
		"429":                          {429, inSeconds, half},
		"503":                          {503, inSeconds, half},
		"403":                          {403, inSeconds, half},
		"529 of Anthropic":             {529, inSeconds, half},
		"403 of GitHub":                {403, headers{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}, half},
		"403 of the draft":             {403, headers{"RateLimit": `"default";r=0;t=30`}, half},
		"403 of who may not":           {403, headers{"X-RateLimit-Reset": "30"}, nil},
		"403 of who may not, at last":  {403, headers{"X-RateLimit-Remaining": "8", "X-RateLimit-Reset": "30"}, nil},
		"429 without a word":           {429, nil, nil},
		"429 that is over":             {429, headers{"Retry-After": "0"}, nil},
		"429 of a cache":               {429, headers{"Retry-After": "30", "Age": "2"}, nil},
		"429 that is absurd":           {429, headers{"Retry-After": "99999999999999999999"}, longest},
		"200 with a word of the quota": {200, headers{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}, nil},
		"500":                          {500, inSeconds, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, refuse(test.code, test.headers))
			l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
			code, body := get(t, client(t, &httplimit.Transport{Limiter: l}), u.URL)
			assert.Equal(t, test.code, code)
			assert.Equal(t, "slow down", body)
			assert.Equal(t, test.want, l.Pauses())
			assert.EqualValues(t, 1, u.reached.Load(), "it is not sent again")
			assert.Equal(t, 4, status(t, l).Available)
		})
	}
}

func TestAfterDecidesInsteadOfRetryAfter(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		refuse(map[string]int{"/429": 429, "/503": 503, "/403": 403, "/404": 404, "/200": 200}[r.URL.Path],
			map[string]string{"Retry-After": "30"})(w, r)
	})
	l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
	start := time.Now()
	c := client(t, &httplimit.Transport{
		Limiter: l,
		After: func(resp *http.Response, received time.Time) (time.Duration, bool) {
			assert.Equal(t, "30", resp.Header.Get("Retry-After"))
			assert.False(t, received.Before(start) || received.After(time.Now()))
			return 8 * time.Second, resp.StatusCode != http.StatusServiceUnavailable
		},
	})
	for _, path := range []string{"/429", "/503", "/403", "/404", "/200"} {
		get(t, c, u.URL+path)
	}
	assert.Equal(t, []time.Duration{8 * time.Second, 8 * time.Second}, l.Pauses())
}

func TestMaxPauseBoundsAPauseAndOnErrorHearsOfOneThatFails(t *testing.T) {
	u := serve(t, refuse(http.StatusTooManyRequests, map[string]string{"Retry-After": "7200"}))
	l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5)), Err: fairlimit.ErrUnreachable}
	told := make(chan error, 1)
	transport := &httplimit.Transport{Limiter: l, MaxPause: time.Hour, OnError: func(err error) { told <- err }}
	code, body := get(t, client(t, transport), u.URL)
	assert.Equal(t, http.StatusTooManyRequests, code, "the response is handed on")
	assert.Equal(t, "slow down", body)
	require.ErrorIs(t, <-told, fairlimit.ErrUnreachable)
	assert.Equal(t, []time.Duration{time.Hour}, l.Pauses())
}

func TestOnErrorHearsOfA429ThatCannotBeRead(t *testing.T) {
	header := map[string]string{"Retry-After": "in a while", "X-RateLimit-Limit": "5"}
	never := func(*http.Response, time.Time) (time.Duration, bool) { return 0, false }
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		after  func(*http.Response, time.Time) (time.Duration, bool)
		want   string
	}{
		"of which nothing can be read": {
			refuse(429, header), nil,
			httplimit.ErrNoDelay.Error() + `: Retry-After: ["in a while"], X-Ratelimit-Limit: ["5"]`,
		},
		"that says nothing":    {refuse(429, nil), nil, httplimit.ErrNoDelay.Error()},
		"that says no time":    {refuse(429, map[string]string{"Retry-After": "0"}), nil, ""},
		"of a cache":           {refuse(429, map[string]string{"Retry-After": "9", "Age": "9"}), nil, ""},
		"that is the caller's": {refuse(429, nil), never, ""},
		"that is a 503":        {refuse(503, nil), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told error
			l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
			get(t, client(t, &httplimit.Transport{
				Limiter: l, After: test.after, OnError: func(err error) { told = err },
			}), serve(t, test.answer).URL)
			assert.Empty(t, l.Pauses())
			if test.want == "" {
				assert.NoError(t, told)
				return
			}
			require.ErrorIs(t, told, httplimit.ErrNoDelay)
			assert.EqualError(t, told, test.want)
		})
	}
}
