package httplimit_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/httplimit"
)

// In the tests, the upstream's clock is seven hours behind the client's.
var (
	received = time.Date(2026, time.March, 1, 19, 0, 0, 0, time.UTC)
)

const upstreamDate = "Sun, 01 Mar 2026 12:00:00 GMT"

func TestRetryAfterReadsWhatUpstreamsSend(t *testing.T) {
	const (
		none    = -1
		longest = math.MaxInt64
	)
	type header = map[string]string
	for name, test := range map[string]struct {
		header header
		want   time.Duration
	}{
		"nothing":            {header{}, none},
		"a Date alone":       {header{"Date": upstreamDate}, none},
		"milliseconds":       {header{"Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		"half a millisecond": {header{"Retry-After-Ms": "0.5"}, time.Millisecond},
		"Azure":              {header{"X-Ms-Retry-After-Ms": "250", "Retry-After": "1"}, 250 * time.Millisecond},
		"milliseconds first": {
			header{"Retry-After-Ms": "20", "X-Ms-Retry-After-Ms": "30", "Retry-After": "1"},
			20 * time.Millisecond,
		},
		"bad milliseconds":    {header{"Retry-After-Ms": "soon", "Retry-After": "7"}, 7 * time.Second},
		"negative ms":         {header{"Retry-After-Ms": "-5"}, none},
		"seconds":             {header{"Retry-After": "120"}, 2 * time.Minute},
		"seconds with spaces": {header{"Retry-After": "  120 "}, 2 * time.Minute},
		"0":                   {header{"Retry-After": "0"}, 0},
		"Shopify":             {header{"Retry-After": "2.0"}, 2 * time.Second},
		"a fraction":          {header{"Retry-After": "2.1"}, 3 * time.Second},
		"less than a second":  {header{"Retry-After": ".3"}, time.Second},
		"negative":            {header{"Retry-After": "-30"}, none},
		"NaN":                 {header{"Retry-After": "NaN"}, none},
		"an exponent":         {header{"Retry-After": "1e3"}, none},
		"a point":             {header{"Retry-After": "."}, none},
		"other digits":        {header{"Retry-After": "٣٠"}, none},
		"empty":               {header{"Retry-After": ""}, none},
		"absurdly many":       {header{"Retry-After": "99999999999999999999999"}, longest},
		"beyond a float":      {header{"Retry-After": "1" + strings.Repeat("0", 400)}, longest},

		"IMF-fixdate": {
			header{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT", "Date": upstreamDate},
			30 * time.Second,
		},
		"no Date":       {header{"Retry-After": "Sun, 01 Mar 2026 19:00:30 GMT"}, 30 * time.Second},
		"a Date it was": {header{"Retry-After": "Sun, 01 Mar 2026 11:59:59 GMT", "Date": upstreamDate}, 0},
		"the year 1":    {header{"Retry-After": "Mon, 01 Jan 0001 00:00:00 GMT", "Date": upstreamDate}, 0},
		"the year 9999": {header{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT", "Date": upstreamDate}, longest},
		"no date":       {header{"Retry-After": "tomorrow", "Date": upstreamDate}, none},

		"an item":          {header{"RateLimit": `"default";r=0;t=30`}, 30 * time.Second},
		"something left":   {header{"RateLimit": `"default";r=5;t=30`}, none},
		"of several":       {header{"RateLimit": `"burst";r=0;t=3, "day";r=0;t=40, "month";r=9;t=900`}, 40 * time.Second},
		"with a key":       {header{"RateLimit": `"peruser";r=0;pk=:cHsdsRa894==:;t=12`}, 12 * time.Second},
		"a quoted item":    {header{"RateLimit": `"a,b;r=0;t=9\";";r=0;t=4`}, 4 * time.Second},
		"only quoted":      {header{"RateLimit": `"a;r=0;t=9"`}, none},
		"an open quote":    {header{"RateLimit": `"a;r=0;t=9\`}, none},
		"no time":          {header{"RateLimit": `"default";r=0`}, none},
		"negative time":    {header{"RateLimit": `"default";r=0;t=-4`}, none},
		"dictionary":       {header{"RateLimit": "limit=100, remaining=0, reset=30"}, 30 * time.Second},
		"dictionary, left": {header{"RateLimit": "limit=100, remaining=1, reset=30"}, none},

		"Retry-After, not RateLimit": {
			header{"Retry-After": "2", "RateLimit": `"default";r=0;t=30`}, 2 * time.Second,
		},
		"Retry-After before RateLimit-Reset": {header{"Retry-After": "2", "RateLimit-Reset": "30"}, 2 * time.Second},
		"even a longer one":                  {header{"Retry-After": "60", "RateLimit-Reset": "30"}, time.Minute},
		"RateLimit before RateLimit-Reset": {
			header{"RateLimit": `"default";r=0;t=30`, "RateLimit-Reset": "45"}, 30 * time.Second,
		},

		"delta":                {header{"RateLimit-Reset": "45"}, 45 * time.Second},
		"delta, used up":       {header{"RateLimit-Reset": "45", "RateLimit-Remaining": "0"}, 45 * time.Second},
		"delta, left":          {header{"RateLimit-Reset": "45", "RateLimit-Remaining": "7"}, none},
		"X delta":              {header{"X-RateLimit-Reset": "45.2"}, 46 * time.Second},
		"the first that works": {header{"RateLimit-Reset": "?", "X-RateLimit-Reset": "45"}, 45 * time.Second},
		"epoch":                {header{"X-RateLimit-Reset": "1772366460", "Date": upstreamDate}, time.Minute},
		"epoch, fraction": {
			header{"X-RateLimit-Reset": "1772366460.125", "Date": upstreamDate},
			60125 * time.Millisecond,
		},
		"epoch in ms": {
			header{"X-RateLimit-Reset": "1772366460250", "Date": upstreamDate},
			60250 * time.Millisecond,
		},
		"epoch, no Date":  {header{"X-RateLimit-Reset": "1772391660"}, time.Minute},
		"epoch that was":  {header{"X-RateLimit-Reset": "1772366399", "Date": upstreamDate}, 0},
		"epoch in ns":     {header{"X-RateLimit-Reset": "1772366460000000000", "Date": upstreamDate}, none},
		"epoch of no use": {header{"X-RateLimit-Reset": "99999999999999999999999999"}, none},
		"RFC 3339":        {header{"X-RateLimit-Reset": "2026-03-01T12:01:00Z", "Date": upstreamDate}, time.Minute},
		"an HTTP date": {
			header{"X-RateLimit-Reset": "Sun, 01 Mar 2026 12:00:30 GMT", "Date": upstreamDate},
			30 * time.Second,
		},
		"Go":           {header{"X-RateLimit-Reset": "6m0s"}, 6 * time.Minute},
		"Go, negative": {header{"X-RateLimit-Reset": "-6m0s"}, none},
		"Go, too long": {header{"X-RateLimit-Reset": "99999999999h"}, none},
		"GitHub": {
			header{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772366700", "Date": upstreamDate},
			5 * time.Minute,
		},
		"GitHub, secondary": {
			header{"X-RateLimit-Remaining": "51", "X-RateLimit-Reset": "1772366700", "Retry-After": "60"}, time.Minute,
		},

		"fresh":      {header{"Retry-After": "10", "Age": "0"}, 10 * time.Second},
		"cached":     {header{"Retry-After": "10", "Age": "3"}, none},
		"a bad Age":  {header{"Retry-After": "10", "Age": "old"}, 10 * time.Second},
		"empty ones": {header{"Retry-After-Ms": "", "X-Ms-Retry-After-Ms": "", "Retry-After": "5"}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{}}
			for key, value := range test.header {
				resp.Header.Set(key, value)
			}
			pause, ok := httplimit.RetryAfter(resp, received)
			assert.Equal(t, test.want != none, ok)
			assert.Equal(t, max(0, test.want), pause)
		})
	}
}

func TestRetryAfterReadsEveryLineOfAHeader(t *testing.T) {
	resp := &http.Response{Header: http.Header{}}
	resp.Header.Add("RateLimit", "limit=10")
	resp.Header.Add("RateLimit", "remaining=0, reset=8")
	pause, ok := httplimit.RetryAfter(resp, received)
	assert.True(t, ok)
	assert.Equal(t, 8*time.Second, pause)

	resp.Header.Add("Retry-After", "later")
	resp.Header.Add("Retry-After", "9")
	pause, ok = httplimit.RetryAfter(resp, received)
	assert.True(t, ok)
	assert.Equal(t, 9*time.Second, pause)
}

func TestAResponseWithoutHeaderSaysNothing(t *testing.T) {
	_, ok := httplimit.RetryAfter(&http.Response{}, received)
	assert.False(t, ok)
}

// FuzzRetryAfter sends anything in every header.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "0", "2.0", "-1", "NaN", "Inf", "1e309", "99999999999999999999", "1772366460", "1772366460250",
		"6m0s", "2562047h47m16.854775807s", "2026-03-01T12:01:00Z", upstreamDate, "Monday, 02-Jan-69 15:04:05 GMT",
		`"default";r=0;t=30`, `"a\`, `;;r=0;t=1,`, "limit=100, remaining=0, reset=30", "remaining=0,reset=9e99",
	} {
		f.Add(value, upstreamDate, "0", int64(0))
		f.Add(value, value, value, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, value, date, remaining string, seconds int64) {
		for _, name := range []string{
			"Retry-After-Ms", "X-Ms-Retry-After-Ms", "Retry-After", "RateLimit", "RateLimit-Reset", "X-RateLimit-Reset",
		} {
			resp := &http.Response{Header: http.Header{}}
			resp.Header.Set("Date", date)
			resp.Header.Set("RateLimit-Remaining", remaining)
			resp.Header.Set(name, value)
			pause, ok := httplimit.RetryAfter(resp, time.Unix(seconds, 0))
			if pause < 0 || !ok && pause != 0 {
				t.Errorf("%s: %q: %v, %v", name, value, pause, ok)
			}
			resp.Header.Set("Age", "1")
			if _, ok := httplimit.RetryAfter(resp, time.Unix(seconds, 0)); ok {
				t.Errorf("%s: %q comes from a cache", name, value)
			}
		}
	})
}
