package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

func TestARefusalPausesTheLimiter(t *testing.T) {
	type answer struct {
		code   int
		header http.Header
		pause  time.Duration
		told   string
	}
	const none, half, reset = 0, 30 * time.Second, "X-RateLimit-Reset"
	inSeconds, cached, silent := headers("Retry-After", "30"), headers("Retry-After", "30", "Age", "2"), headers()
	usedUp := headers("X-RateLimit-Remaining", "0", reset, "30")
	unclear := headers("Retry-After", "in a while", "X-RateLimit-Limit", "5")
	noDelay := httplimit.ErrNoDelay.Error()
	unclearly := noDelay + `: map["Retry-After":["in a while"] "X-Ratelimit-Limit":["5"]]`
	each(t, map[string]answer{
		"429":                          {429, inSeconds, half, ""},
		"503":                          {503, inSeconds, half, ""},
		"403":                          {403, inSeconds, half, ""},
		"529 of Anthropic":             {529, inSeconds, half, ""},
		"403 of GitHub":                {403, usedUp, half, ""},
		"403 of the draft":             {403, headers("RateLimit", `"default";r=0;t=30`), half, ""},
		"403 of who may not":           {403, headers(reset, "30"), none, ""},
		"403 of who may not, at last":  {403, headers("X-RateLimit-Remaining", "8", reset, "30"), none, ""},
		"429 without a word":           {429, silent, none, noDelay},
		"429 that is unclear":          {429, unclear, none, unclearly},
		"429 that is over":             {429, headers("Retry-After", "0"), none, ""},
		"429 of a cache":               {429, cached, none, ""},
		"429 that is absurd":           {429, headers("Retry-After", "99999999999999999999"), httplimit.DefaultMaxPause, ""},
		"503 without a word":           {503, silent, none, ""},
		"200 with a word of the quota": {200, usedUp, none, ""},
		"500":                          {500, inSeconds, none, ""},
	}, func(t *testing.T, r *rig, a answer) {
		r.upstream.code, r.upstream.header = a.code, a.header
		code, body := r.get(t, url)
		assert.Equal(t, a.code, code)
		assert.Equal(t, "slow down", body)
		assert.Equal(t, a.pause, append(r.queue.Pauses(), none)[0])
		assert.Equal(t, 1, r.upstream.sent, "it is not sent again")
		if a.told == "" {
			assert.NoError(t, r.told)
		} else {
			require.ErrorIs(t, r.told, httplimit.ErrNoDelay)
			assert.EqualError(t, r.told, a.told)
		}
	})
}

func TestAfterDecidesInsteadOfRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var asked []int
		began, says := time.Now(), true
		r.upstream.header = headers("Retry-After", "30")
		r.After = func(resp *http.Response, received time.Time) (time.Duration, bool) {
			assert.Equal(t, began, received)
			asked = append(asked, resp.StatusCode)
			return 8 * time.Second, says
		}
		for _, r.upstream.code = range []int{429, 404, 403, 200} {
			r.get(t, url)
		}
		says, r.upstream.code = false, 429
		r.get(t, url)
		assert.Equal(t, []int{429, 403, 429}, asked)
		assert.Equal(t, []time.Duration{8 * time.Second, 8 * time.Second}, r.queue.Pauses())
		require.NoError(t, r.told)
	})
}

func TestMaxPauseBoundsAPauseAndOnErrorHearsOfOneThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.queue.Err, r.MaxPause = fairlimit.ErrUnreachable, time.Hour
		r.upstream.code, r.upstream.header = 429, headers("Retry-After", "7200")
		code, _ := r.get(t, url)
		assert.Equal(t, http.StatusTooManyRequests, code, "the response is handed on")
		synctest.Wait()
		require.ErrorIs(t, r.told, fairlimit.ErrUnreachable)
		assert.Equal(t, []time.Duration{time.Hour}, r.queue.Pauses())
	})
}
