// Package window is the sliding-window limiter that Redisson's RRateLimiter
// keeps in Redis: as an engine for a limiter, and its administration. It reads
// and writes Redisson's keys. So Go and Java processes can share one limiter,
// whoever set it up, and while both run.
//
// It grants at most Permits in any window of length Per, however the window is
// placed in time. There is no queue and no order: a refused caller sleeps until
// as many permits are free as it asked for, and asks again, together with all
// others who do. For order, for a Burst and for further quotas use package
// fair.
//
// # Who decides the rate
//
// The rate lives in Redis. An engine writes its quota there if there is none,
// as trySetRate does. A rate that is already there wins, even if it is another
// one. [Open] the limiter to change it, with [Admin.SetRate] or
// [Admin.UpdateRate].
//
// # What is strict
//
// The clock is the Redis server's. Grants are stored in whole milliseconds,
// rounded up, and count for at least Per from the microsecond in which they
// were made. The set of grants decides. The number of permits left, which
// Redisson keeps beside the set, is written for its sake. Two limits:
//
//   - If more than 1000 grants are in one window, they are not added up each
//     time, and the number left is believed. If Redisson lowers the rate then
//     and keeps the state, or releases permits, that number may be too large
//     for one window.
//   - A caller that has to wait for more than 1000 grants to leave is told to
//     wait for the first 1000, and asks again.
//
// # Sharing with Redisson
//
// Under sustained saturation, a Go process wins against Java. Of 18 permits a
// second, asked for by 4 clients of each kind, Java got 20 to 27 and Go 341 to
// 348. Redisson lets a refused client wait 3 ms longer than it has to, and then
// until the next tick of a timer, 10 to 100 ms later. By then a client of this
// package, which waits as long as it has to, has asked. [RetryTick] makes it as
// late. In an emulation of Redisson's timing each side got 50 % at ticks of 100
// ms, and Java 40 % at ticks of 10 ms; without RetryTick, 10 % at most.
//
// Redisson uses the clock of its own machine, and this package that of the
// Redis server:
//
//   - A Java process whose clock is behind has its grants forgotten early. One
//     whose clock is ahead forgets those of others early. The limiter is strict
//     as far as the clocks of the Java side are right.
//   - Clocks that differ by a whole Per break sharing altogether: with a Java
//     clock 1.2 s ahead, at 5 permits a second, one window got 50.
//   - Redisson dates a grant before it sends it, up to 15 ms early. An upstream
//     that counts strictly needs that much slack: make Per longer by it.
//   - This package counts a grant that is dated in the future as made now.
//
// What else Redisson sees or does:
//
//   - After a rate was lowered and the state kept, more permits may be held
//     than the rate allows. The number left is then negative, so that Redisson
//     grants nothing either, and its availablePermits returns that number. It
//     rises to 0 and above as grants leave the window. [Admin.AvailablePermits]
//     returns 0.
//   - In every version up to 4.7.0, Redisson's release changes the number left
//     and not the set. The next question from this package undoes it: the
//     permits are free once their grants leave the window.
//   - Later versions take released permits out of the oldest grants, as
//     [Admin.Release] does. A grant that was released in part cannot be given
//     back by its caller; the rest of it leaves with the window. That is the
//     strict side.
//   - Redisson accepts rates that this package does not. Every method but
//     [Admin.SetRate], [Admin.UpdateRate], [Admin.TrySetRate], [Admin.Delete]
//     and Reset answers with an error that matches [engine.ErrState] and
//     changes nothing if the rate in Redis is 0, negative or over 2⁵³, if its
//     interval is 0, negative or over 100 years, or if keepAliveTime is
//     negative or over 100 years.
//
// # Cost
//
// A question is one script run with up to 128 requests, and typically takes
// under half a millisecond of the server's time. Of that, 0.2 ms are for adding
// up 1000 grants. Each 1000 grants that have left the window since the last
// question cost one more run. If the number left is missing in Redis, the next
// run adds up all grants of the window.
//
// A request for more than the rate is an error and writes nothing: it neither
// sets a rate nor renews a keep-alive.
package window
