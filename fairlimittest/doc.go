// Package fairlimittest makes limiters for tests of programs that use fairlimit.
// Each has a Redis of its own in the memory of the test, so that nothing has to
// be installed, and no socket is opened. All ends with the test.
//
// # On a fake clock
//
// It works inside a [testing/synctest] bubble, where an hour takes no time:
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
// Give [New] and [Start] the t of the bubble, and use what they return inside
// it only.
//
// # On the real clock
//
// Outside a bubble callers sleep for real. A test that wants to see what the
// program does while it waits takes a quota of hours, and [WaitFor] returns as
// soon as enough permits are queued:
//
//	limiter := fairlimittest.New(t, fairlimit.Every(time.Hour))
//	go program(ctx, limiter)
//	fairlimittest.WaitFor(t, limiter, 2)
//
// To move Redis's clock, use [Server.SetTime]. It frees what time would free.
// It wakes nobody, for callers sleep on their own clock. Miniredis's FastForward
// frees nothing: it takes from the TTL of keys, and the queue's clock is Redis's
// TIME. In a bubble neither is needed: time.Sleep moves both clocks.
//
// # Several processes
//
// [Start] makes a server for limiters that share queues, as processes do, and
// clients for programs that make limiters themselves.
//
// No figure measured here says anything about Redis.
package fairlimittest
