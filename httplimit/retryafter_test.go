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
var received = time.Date(2026, time.March, 1, 19, 0, 0, 0, time.UTC)

const upstreamDate = "Sun, 01 Mar 2026 12:00:00 GMT"

const (
	unread  = time.Duration(-1)
	longest = time.Duration(math.MaxInt64)
)

// TestEveryFormOfATimeIsRead has forms that real senders use. The comment says
// who does, where it is not a standard.
func TestEveryFormOfATimeIsRead(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"120":                          2 * time.Minute,
		"  120 ":                       2 * time.Minute,
		"0":                            0,
		"2.0":                          2 * time.Second, // Shopify
		".3":                           300 * time.Millisecond,
		"33011.5":                      9*time.Hour + 10*time.Minute + 11500*time.Millisecond, // Cerebras
		"6m0s":                         6 * time.Minute,                                       // OpenAI
		"20ms":                         20 * time.Millisecond,
		"823.54µs":                     823540 * time.Nanosecond, // Traefik
		"1772366460":                   time.Minute,              // GitHub, Okta, X, Docker Hub
		"1772366460.125":               60125 * time.Millisecond, // Discord
		"1772366460250":                60250 * time.Millisecond, // OpenRouter, Linear
		"1772366460000000000":          time.Minute,
		"1772366399":                   0,
		"99999999999999999999999":      longest,
		"1" + strings.Repeat("0", 400): longest,

		"Sun, 01 Mar 2026 12:00:30 GMT":                                      30 * time.Second,
		"Sun, 01 Mar 2026 12:00:30 UTC":                                      30 * time.Second, // Go's RFC1123
		"Sun, 01 Mar 2026 12:00:30 UT":                                       30 * time.Second,
		"Sun, 01 Mar 2026 12:00:30 Z":                                        30 * time.Second,
		"sun, 01 mar 2026 12:00:30 gmt":                                      30 * time.Second,
		"Sun, 1 Mar 2026 12:00:30 GMT":                                       30 * time.Second,
		"Sun, 01 Mar 2026 14:00:30 +0200":                                    30 * time.Second, // Go's RFC1123Z
		"1 Mar 2026 12:00:30 GMT":                                            30 * time.Second,
		"Sunday, 01-Mar-26 12:00:30 GMT":                                     30 * time.Second,
		"Sun, 01-Mar-2026 12:00:30 GMT":                                      30 * time.Second,
		"Sun Mar  1 12:00:30 2026":                                           30 * time.Second,
		"Sun Mar 01 2026 13:00:30 GMT+0100 (Central European Standard Time)": 30 * time.Second, // lemlist
		"2026-03-01T12:00:30Z":                                               30 * time.Second, // Anthropic, Zoom
		"2026-03-01T14:00:30+02:00":                                          30 * time.Second, // Vimeo, Yelp
		"2026-03-01T14:00:30+0200":                                           30 * time.Second,
		"2026-03-01T12:01Z":                                                  time.Minute, // Jira
		"2026-03-01T12:00:30":                                                30 * time.Second,
		"2026-03-01 12:00:30":                                                30 * time.Second,
		"2026-03-01 05:00:30 -0700":                                          30 * time.Second,         // Gusto
		"2026-03-01 12:00:30 UTC":                                            30 * time.Second,         // Ruby
		"2026-03-01 12:00:30.5 +0000 UTC":                                    30500 * time.Millisecond, // Go
		"2026-03-01 13:00:30 +0100 CET m=+0.001":                             30 * time.Second,
		"Sun, 01 Mar 2026 11:59:59 GMT":                                      0,
		"Fri, 31 Dec 9999 23:59:59 GMT":                                      longest,

		"": unread, ".": unread, "-30": unread, "NaN": unread, "1e3": unread, "٣٠": unread, "soon": unread,
		"-6m0s": unread, "99999999999h": unread,
		"Sun, 01 Mar 2026 12:00:30 PST": unread,
	} {
		for _, name := range []string{"Retry-After", "X-Rate-Limit-Reset"} {
			read(t, name+": "+value, want, "Date", upstreamDate, name, value)
			if want == 30*time.Second {
				read(t, "Date: "+value, 5*time.Second, "Date", value, name, "Sun, 01 Mar 2026 12:00:35 GMT")
			}
		}
	}
}

// read checks what a response with these headers says.
func read(t *testing.T, what string, want time.Duration, header ...string) {
	t.Helper()
	pause, ok := httplimit.RetryAfter(&http.Response{Header: headers(header...)}, received)
	assert.Equal(t, want != unread, ok, what)
	assert.Equal(t, max(0, want), pause, what)
}

func TestWhichHeaderCounts(t *testing.T) {
	const tokens, requests = "X-RateLimit-Reset-Tokens", "X-RateLimit-Reset-Requests"
	for name, test := range map[string]struct {
		want   time.Duration
		header []string
	}{
		"none":               {unread, nil},
		"a Date alone":       {unread, []string{"Date", upstreamDate}},
		"no Date":            {30 * time.Second, []string{"Retry-After", "Sun, 01 Mar 2026 19:00:30 GMT"}},
		"a Date that is bad": {time.Minute, []string{"X-RateLimit-Reset", "1772391660", "Date", "today"}},
		"milliseconds":       {500 * time.Microsecond, []string{"Retry-After-Ms", "0.5"}},
		"Azure":              {250 * time.Millisecond, []string{"X-Ms-Retry-After-Ms", "250", "Retry-After", "1"}},
		"bad milliseconds":   {7 * time.Second, []string{"Retry-After-Ms", "soon", "Retry-After", "7"}},
		"every line":         {9 * time.Second, []string{"Retry-After", "later", "Retry-After", "9"}},
		"Docker Hub":         {time.Minute, []string{"X-Retry-After", "1772366460", "Date", upstreamDate}},
		"Bucket4j":           {8 * time.Second, []string{"X-Rate-Limit-Retry-After-Seconds", "8"}},
		"Traefik":            {time.Second, []string{"X-Retry-In", "823.54ms", "Retry-After", "1"}},
		"Traefik, alone":     {823540 * time.Microsecond, []string{"X-Retry-In", "823.54ms"}},
		"NestJS":             {20 * time.Second, []string{"Retry-After-Short", "2", "Retry-After-Long", "20"}},

		"an item":                  {30 * time.Second, []string{"RateLimit", `"default";r=0;t=30`}},
		"an item of which is left": {unread, []string{"RateLimit", `"default";r=5;t=30`}},
		"several items": {
			40 * time.Second, []string{"RateLimit", `"burst";r=0;t=3, "day";r=0;t=40, "month";r=9;t=900`},
		},
		"an item with a key": {12 * time.Second, []string{"RateLimit", `"peruser";r=0;pk=:cHsdsRa894==:;t=12`}},
		"a quoted item":      {4 * time.Second, []string{"RateLimit", `"a,b;r=0;t=9\";";r=0;t=4`}},
		"only quoted":        {unread, []string{"RateLimit", `"a;r=0;t=9"`}},
		"an open quote":      {unread, []string{"RateLimit", `"a;r=0;t=9\`}},
		"an item, no time":   {unread, []string{"RateLimit", `"default";r=0`}},
		"a dictionary":       {30 * time.Second, []string{"RateLimit", "limit=100, remaining=0, reset=30"}},
		"of which is left":   {unread, []string{"RateLimit", "limit=100, remaining=1, reset=30"}},
		"on two lines":       {8 * time.Second, []string{"RateLimit", "limit=10", "RateLimit", "remaining=0, reset=8"}},

		"Retry-After before an item": {2 * time.Second, []string{"Retry-After", "2", "RateLimit", `"a";r=0;t=30`}},
		"Retry-After before a reset": {time.Minute, []string{"Retry-After", "60", "RateLimit-Reset", "30"}},
		"an item before a reset":     {30 * time.Second, []string{"RateLimit", `"a";r=0;t=30`, "RateLimit-Reset", "45"}},
		"the draft":                  {45 * time.Second, []string{"RateLimit-Reset", "45", "RateLimit-Remaining", "0"}},
		"the draft, left":            {unread, []string{"RateLimit-Reset", "45", "RateLimit-Remaining", "7"}},
		"without what is left":       {45 * time.Second, []string{"RateLimit-Reset", "45"}},
		"the one that can be read":   {45 * time.Second, []string{"RateLimit-Reset", "?", "X-RateLimit-Reset", "45"}},
		"Reddit":                     {45 * time.Second, []string{"X-Ratelimit-Reset", "45", "X-Ratelimit-Remaining", "0.0"}},
		"with parameters":            {unread, []string{"RateLimit-Reset", "45", "RateLimit-Remaining", "3;w=21600"}},
		"X": {
			time.Minute,
			[]string{"X-Rate-Limit-Reset", "1772366460", "X-Rate-Limit-Remaining", "0", "Date", upstreamDate},
		},
		"X, for a day": {time.Minute, []string{
			"X-Rate-Limit-Reset", "1772366999", "X-Rate-Limit-Remaining", "8", "Date", upstreamDate,
			"X-User-Limit-24hour-Reset", "1772366460", "X-User-Limit-24hour-Remaining", "0",
		}},
		"Discord": {
			64570 * time.Millisecond, []string{"X-RateLimit-Reset-After", "64.57", "X-RateLimit-Remaining", "0"},
		},
		"Discord, left": {unread, []string{"X-RateLimit-Reset-After", "64.57", "X-RateLimit-Remaining", "1"}},
		"GitLab": {30 * time.Second, []string{
			"RateLimit-ResetTime", "Sun, 01 Mar 2026 12:00:30 GMT", "RateLimit-Remaining", "0", "Date", upstreamDate,
		}},
		"GitHub, secondary": {
			time.Minute, []string{"X-RateLimit-Remaining", "51", "X-RateLimit-Reset", "1772366700", "Retry-After", "60"},
		},
		"OpenAI": {90 * time.Second, []string{
			tokens, "1m30s", "X-RateLimit-Remaining-Tokens", "0", requests, "3h", "X-RateLimit-Remaining-Requests", "9",
		}},
		"of one only is known": {
			90 * time.Second, []string{tokens, "1m30s", "X-RateLimit-Remaining-Tokens", "0", requests, "3h"},
		},
		"both are used up": {3 * time.Hour, []string{
			tokens, "1m30s", "X-RateLimit-Remaining-Tokens", "0", requests, "3h", "X-RateLimit-Remaining-Requests", "0",
		}},
		"Imgur":  {5 * time.Second, []string{"X-RateLimit-UserReset", "5", "X-RateLimit-UserRemaining", "0"}},
		"KuCoin": {2 * time.Second, []string{"Gw-RateLimit-Reset", "2000", "Gw-RateLimit-Remaining", "0"}},

		"fresh":     {10 * time.Second, []string{"Retry-After", "10", "Age", "0"}},
		"cached":    {unread, []string{"Retry-After", "10", "Age", "3"}},
		"a bad Age": {10 * time.Second, []string{"Retry-After", "10", "Age", "old"}},
	} {
		read(t, name, test.want, test.header...)
	}
}

// FuzzRetryAfter sends anything in every header.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "0", "2.0", "-1", "NaN", "1e309", "99999999999999999999", "1772366460", "2562047h47m16.854775807s",
		"Monday, 02-Jan-69 15:04:05 GMT", `"default";r=0;t=30`, `"a\`, `;;r=0;t=1,`, "remaining=0,reset=9e99",
	} {
		f.Add(value, upstreamDate, int64(0))
		f.Add(value, value, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, value, date string, seconds int64) {
		for _, name := range []string{
			"Retry-After-Ms", "Retry-After", "X-Retry-In", "RateLimit", "RateLimit-Reset", "X-RateLimit-Reset-After",
		} {
			resp := &http.Response{Header: http.Header{}}
			resp.Header.Set("Date", date)
			resp.Header.Set(name, value)
			if pause, ok := httplimit.RetryAfter(resp, time.Unix(seconds, 0)); pause < 0 || !ok && pause != 0 {
				t.Errorf("%s: %q: %v, %v", name, value, pause, ok)
			}
		}
	})
}
