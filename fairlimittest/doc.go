// Package fairlimittest makes limiters for tests of programs that use
// fairlimit. Each limiter has a Redis of its own in memory. So there is nothing
// to install, and no socket is opened. Limiter and Redis end with the test.
//
// # On a fake clock
//
// A limiter works inside a [testing/synctest] bubble, where an hour takes no
// time:
//
//	func TestReportsGoOutOneAMinute(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			limiter := fairlimittest.New(t, fairlimit.Every(time.Minute))
//			began := time.Now()
//			for range 61 {
//				if err := sendReport(t.Context(), limiter); err != nil {
//					t.Fatal(err)
//				}
//			}
//			if took := time.Since(began); took != time.Hour {
//				t.Errorf("61 reports took %v, want an hour", took)
//			}
//		})
//	}
//
// Give New and Start the t of the bubble, and use what they return only inside
// it.
//
// # On the real clock
//
// Outside a bubble callers sleep for real. To see what a program does while it
// waits, give it a quota of hours. WaitFor returns as soon as enough permits
// are queued. A caller that goes at once is not queued:
//
//	limiter := fairlimittest.New(t, fairlimit.Every(time.Hour))
//	go program(ctx, limiter) // calls Wait in three goroutines
//	fairlimittest.WaitFor(t, limiter, 2)
//
// To move Redis's clock, use [Server.SetTime]. It frees the permits that would
// be free at that time. It wakes nobody, because callers sleep on the clock of
// the test. FastForward of miniredis is no help: it shortens the TTL of keys, but
// the queue's clock is Redis's TIME. In a bubble you need neither: time.Sleep
// moves both clocks.
//
// # Several processes
//
// [Start] makes a server. Limiters on it share queues, as processes do. It also
// makes clients, for programs that make limiters themselves.
//
// No figure that you measure here says anything about a real Redis.
package fairlimittest
