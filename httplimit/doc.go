// Package httplimit lets the requests of an [http.Client] wait for their turn,
// and holds everybody back when the upstream says that it has had enough.
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1))
//	if err != nil {
//		return err
//	}
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//	resp, err := client.Get("https://tax-office.example/rates") // waits, then sends
//
// On "429 Too Many Requests, Retry-After: 30" nobody else should go for 30
// seconds, in this process or in any other. A limiter that can pause is paused.
// One that cannot, such as one on package window, leaves it to the Transport,
// which holds back its own requests only. [RetryAfter] lists the headers that
// count.
//
// # What it does not do
//
// A [Transport] never sends a request again. Put what retries above it, so that
// each attempt waits for a turn of its own. Each hop of a redirect does so, too.
// [http.Transport] sends a request again by itself in one case: an idle
// connection turned out to be closed. That attempt does not wait.
//
// # Deadlines
//
// A request waits under its ctx, and under [http.Client]'s Timeout. If its turn
// would come too late, it is refused at once with an error that matches
// [context.DeadlineExceeded], and is not sent.
package httplimit
