// Package colly shows crawlers on many machines that together visit a site no
// more often than it allows.
//
// The limiter is the transport of the collector. Colly's own LimitRule knows
// this process only. Redirects and retries wait for turns of their own, and
// robots.txt does as well. A 429 or a 503 with Retry-After pauses the queue for
// all crawlers.
//
// For resty it is the same: SetTransport, SetRetryCount, and no SetTimeout.
package colly

import (
	"context"
	"net/http"
	"time"

	"github.com/gocolly/colly/v2"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

const retries = 3

// NewCollector returns a collector whose requests wait in the queue, until ctx
// ends. Its callbacks run concurrently: call Wait to see it end.
func NewCollector(ctx context.Context, queue *fairlimit.Queue) *colly.Collector {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 10 * time.Second // begins with the turn
	c := colly.NewCollector(colly.StdlibContext(ctx), colly.Async(true))
	c.WithTransport(&httplimit.Transport{Limiter: queue, Base: base})
	// Colly gives up after 10 seconds, and the wait counts. A request whose turn
	// is further away would be refused.
	c.SetRequestTimeout(0)
	c.OnError(retry)
	return c
}

// retry visits again what was refused. The visit waits out the pause in the
// queue, so there is nothing to sleep here.
func retry(resp *colly.Response, _ error) {
	tries, _ := resp.Ctx.GetAny("tries").(int)
	refused := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
	if refused && tries < retries {
		resp.Ctx.Put("tries", tries+1)
		_ = resp.Request.Retry() // its errors come here as well
	}
}
