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
// After "429 Too Many Requests, Retry-After: 30" nobody should go for 30
// seconds, in this process or in any other. So the Transport pauses the limiter.
// [RetryAfter] reads Retry-After, RateLimit, RateLimit-Reset and their many
// relatives, in every form that senders use. If a 429 says nothing that can be
// read, OnError of the Transport is told.
//
// If the limiter is a flow of [fairlimit.Queue.Flow], the whole queue is paused. A
// tenant with a token of its own has a limiter of its own.
//
// # Costs that only the answer tells
//
// For a queue with several units, such as calls and tokens, Amounts says what a
// request takes, and Used reads from the answer what it really used. Package
// llmlimit does so for language models.
//
// # Quotas that the upstream announces
//
// With Learn, the header RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers
// sets the quotas of all processes, and a new one reaches callers that wait:
//
//	limiter, err := fairlimit.New(rdb, "tax-office", quota, fairlimit.WithStoredQuota())
//	transport := &httplimit.Transport{Limiter: limiter, Learn: true}
//
// Both forms are read: "default";q=100;w=60, and the older 100;w=60. Policies
// that count something else than requests, or have no window, are left out. The
// rest hold together. A Transport compares them with the stored quotas once a
// second, which costs one GET. [fairlimit.Queue.LearnQuotas] says when they are
// stored. A change takes two seconds to reach everybody, and up to a minute more
// if another one came shortly before it. Until then calls go by the old quota.
//
// An upstream that announces another policy for each path wants a limiter, and a
// Transport, for each. A header that makes no sense is ignored as a whole, and
// OnError hears of it: see [ErrBadPolicy].
//
// # What it does not do
//
// A [Transport] never retries: a 429 is returned as it is. Put the layer that
// retries above it, so that each attempt waits for a turn of its own, and for the
// end of the pause. Each hop of a redirect waits as well.
//
// An [http.Transport] does send a request again by itself: a GET if the server
// closes an old connection without an answer, and up to seven times an HTTP/2
// stream that the server refuses. Each sending after the first waits for a turn of
// its own. If it gets none, the request is not sent again, and the error is the
// limiter's. A Base of your own has to call the hooks GotConn and WroteHeaderField
// of package httptrace for this. What it repeats without them, and what a proxy
// on the way repeats, takes no turn.
package httplimit
