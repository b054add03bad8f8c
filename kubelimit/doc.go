// Package kubelimit lets the clients and work queues of k8s.io/client-go share
// one quota, in order, over all processes.
//
//	quota := fairlimit.PerSecond(20)
//	limiter, err := fairlimit.New(rdb, "cluster-a", quota)
//	if err != nil {
//		return err
//	}
//	config.RateLimiter = &kubelimit.RateLimiter{Limiter: limiter, Quota: quota}
//	clients, err := kubernetes.NewForConfig(config) // QPS and Burst no longer count
//
//	reserver := limiter.(fairlimit.Reserver) // not on package window
//	queue := workqueue.NewTypedRateLimitingQueue[string](
//		&kubelimit.ItemRateLimiter[string]{Reserver: reserver},
//	)
//
// # Clients
//
// A client asks before each request, and before each attempt to send it again.
// It waits under the ctx of the request; the Timeout of the config begins later.
// A config that a program makes several clients from gives all of them the same
// RateLimiter. What the API server answers does not reach it: to pause everybody
// on a 429, leave RateLimiter alone, set QPS to -1, and give config.Wrap a
// Transport of package httplimit.
//
// # Work queues
//
// An [ItemRateLimiter] has no backoff of its own: an item that fails takes the
// next turn. For both, combine it with one of client-go's in
// [workqueue.NewTypedMaxOfRateLimiter]. A turn that comes before the longer of
// the two delays passes unused.
//
// A work queue has no place for an error. While Redis fails, items come without
// a turn, after a delay that grows. If the upstream must never see more than its
// quota, use a RateLimiter, or let the worker call Wait of the limiter before it
// calls the upstream.
package kubelimit
