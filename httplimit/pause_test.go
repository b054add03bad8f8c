package httplimit_test

import (
	"net/http"
	"slices"
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
			u := &upstream{code: test.code, header: test.headers}
			l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
			code, body := get(t, &httplimit.Transport{Limiter: l, Base: u}, "http://upstream")
			assert.Equal(t, test.code, code)
			assert.Equal(t, "slow down", body)
			assert.Equal(t, test.want, l.Pauses())
			assert.Equal(t, 1, u.sent, "it is not sent again")
			assert.Equal(t, 4, status(t, l).Available)
		})
	}
}

func TestAfterDecidesInsteadOfRetryAfter(t *testing.T) {
	for code, paused := range map[int]bool{429: true, 503: false, 403: true, 404: false, 200: false} {
		l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
		start := time.Now()
		get(t, &httplimit.Transport{
			Limiter: l, Base: &upstream{code: code, header: map[string]string{"Retry-After": "30"}},
			After: func(resp *http.Response, received time.Time) (time.Duration, bool) {
				assert.Equal(t, "30", resp.Header.Get("Retry-After"))
				assert.False(t, received.Before(start) || received.After(time.Now()))
				return 8 * time.Second, resp.StatusCode != http.StatusServiceUnavailable
			},
		}, "http://upstream")
		assert.Equal(t, paused, slices.Equal(l.Pauses(), []time.Duration{8 * time.Second}), code)
	}
}

func TestMaxPauseBoundsAPauseAndOnErrorHearsOfOneThatFails(t *testing.T) {
	l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5)), Err: fairlimit.ErrUnreachable}
	told := make(chan error, 1)
	code, body := get(t, &httplimit.Transport{
		Limiter: l, Base: &upstream{code: 429, header: map[string]string{"Retry-After": "7200"}},
		MaxPause: time.Hour, OnError: func(err error) { told <- err },
	}, "http://upstream")
	assert.Equal(t, http.StatusTooManyRequests, code, "the response is handed on")
	assert.Equal(t, "slow down", body)
	require.ErrorIs(t, <-told, fairlimit.ErrUnreachable)
	assert.Equal(t, []time.Duration{time.Hour}, l.Pauses())
}

func TestOnErrorHearsOfA429ThatCannotBeRead(t *testing.T) {
	type headers = map[string]string
	never := func(*http.Response, time.Time) (time.Duration, bool) { return 0, false }
	for name, test := range map[string]struct {
		upstream upstream
		after    func(*http.Response, time.Time) (time.Duration, bool)
		want     string
	}{
		"of which nothing can be read": {
			upstream{code: 429, header: headers{"Retry-After": "in a while", "X-RateLimit-Limit": "5"}},
			nil,
			httplimit.ErrNoDelay.Error() + `: map["Retry-After":["in a while"] "X-Ratelimit-Limit":["5"]]`,
		},
		"that says nothing":    {upstream{code: 429}, nil, httplimit.ErrNoDelay.Error()},
		"that says no time":    {upstream{code: 429, header: headers{"Retry-After": "0"}}, nil, ""},
		"of a cache":           {upstream{code: 429, header: headers{"Retry-After": "9", "Age": "9"}}, nil, ""},
		"that is the caller's": {upstream{code: 429}, never, ""},
		"that is a 503":        {upstream{code: 503}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told error
			l := &pausing{Limiter: limiter(t, fairlimit.PerHour(5))}
			get(t, &httplimit.Transport{
				Limiter: l, Base: &test.upstream, After: test.after, OnError: func(err error) { told = err },
			}, "http://upstream")
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
