// Package kubelimit lets the clients and work queues of k8s.io/client-go share
// one quota, in order, over all processes.
//
//	quota := fairlimit.PerSecond(20)
//	limiter, err := fairlimit.NewQueue(rdb, "cluster-a", quota)
//	if err != nil {
//		return err
//	}
//	config.RateLimiter = &kubelimit.RateLimiter{Limiter: limiter, Quota: quota}
//	clients, err := kubernetes.NewForConfig(config) // QPS and Burst no longer count
//
//	work := workqueue.NewTypedRateLimitingQueue[string](
//		&kubelimit.ItemRateLimiter[string]{Reserver: limiter},
//	)
//
// # Clients
//
// A client asks before each request, and again before each retry. It waits
// under the ctx of the request; the Timeout of the config begins later. All
// clients that a program makes from one config share its RateLimiter.
//
// The first try of a Watch takes no turn: client-go asks no limiter for it. Nor
// does a RateLimiter hear what the API server answers. If watches are to count,
// or a 429 is to pause everybody, let a Transport of package httplimit take the
// turns. It stands below client-go and sees every request:
//
//	config.QPS = -1 // RateLimiter stays nil, or a request would take two turns
//	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
//		return &httplimit.Transport{Limiter: limiter, Base: base}
//	})
//
// # Work queues
//
// An [ItemRateLimiter] has no backoff: an item that fails takes the next turn.
// For a backoff as well, combine it with a limiter of client-go in
// workqueue.NewTypedMaxOfRateLimiter. The item then waits for the longer of the
// two delays. If that is the backoff, the turn passes unused.
//
// A work queue cannot report an error. While Redis fails, items come without a
// turn, after a delay that grows. If the upstream must never see more than its
// quota, use a [RateLimiter], or let the worker call Wait before it calls the
// upstream.
package kubelimit
