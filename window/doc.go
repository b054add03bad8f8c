// Package window is the sliding-window limiter that Redisson's RRateLimiter
// keeps in Redis. It is an engine for a limiter, and also has Redisson's
// administration. It reads and writes Redisson's keys. So Go and Java processes
// can share one limiter at the same time, whichever of them set it up.
//
// It grants at most Permits in any window of length Per, however the window is
// placed in time. There is no queue and no order. A refused caller is told
// when as many permits leave the window as it asked for. It sleeps until then
// and asks again, together with all others that do. It does not hear of
// permits that become free before: by Reset, [Admin.Release] or a wider rate.
// For order, for a Burst and for further quotas use package fair.
//
// # Who decides the rate
//
// The rate is stored in Redis. If there is none, an engine writes its quota
// there, as trySetRate does. A rate that is already there wins, even if it
// differs from the quota. To change it, [Open] the limiter and use
// [Admin.SetRate] or [Admin.UpdateRate].
//
// # What is strict
//
// The clock is that of the Redis server. Each grant counts for at least Per from
// the microsecond in which it was made. The set of grants decides. Redisson also
// keeps the number of permits left; this package writes it for Redisson's sake.
// There are two limits:
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
// Under sustained saturation, Go processes get more than Java processes: of 18
// permits a second, asked for by 4 clients of each kind, Java got 20 to 27 and
// Go 341 to 348. Redisson lets a refused client wait 3 ms longer than it has to,
// and then until the next tick of a timer, 10 to 100 ms later. By then a client
// of this package has asked. [RetryTick] makes it as late. In an emulation of
// Redisson's timing each side got 50 % at ticks of 100 ms, and Java 40 % at ticks
// of 10 ms; without RetryTick, 10 % at most.
//
// Redisson uses the clock of its own machine. So:
//
//   - If the clock of a Java process is behind, its grants are forgotten early.
//     If it is ahead, it forgets the grants of others early. The limiter is as
//     strict as the clocks of the Java side are right. If they differ by a whole
//     Per, sharing does not work at all.
//   - Redisson dates a grant up to 15 ms before it sends it. If the upstream
//     counts strictly, make Per longer by that much.
//   - This package counts a grant that is dated in the future as made now.
//
// What else Redisson sees or does:
//
//   - After a rate was lowered and the state kept, the number left can be
//     negative. Redisson grants nothing then either, and its availablePermits
//     returns that number. [Admin.AvailablePermits] returns 0. If the rate is per
//     client, this holds for the client of the Admin: the others' numbers stay as
//     they were, as they do when Redisson changes the rate.
//   - In every version up to 4.7.0, Redisson's release changes the number left
//     and not the set. The next question from this package undoes it: the
//     permits are free once their grants leave the window.
//   - Later versions take released permits out of the oldest grants, as
//     [Admin.Release] does. A grant that was released in part cannot be given
//     back by its caller; the rest of it leaves with the window.
//   - Redisson accepts rates that this package does not: a rate of 0, negative
//     or over 2⁵³; an interval of 0, negative or over 100 years; a
//     keepAliveTime that is negative or over 100 years. If such a rate is in
//     Redis, nothing is changed and the error matches [engine.ErrState]. Only
//     [Admin.SetRate], [Admin.UpdateRate], [Admin.TrySetRate], [Admin.Delete]
//     and Reset still work. Reset deletes such a rate.
//
// # Cost
//
// A question is one script run with up to 256 requests, typically half a
// millisecond of the server's time. To add up 1000 grants takes 0.2 ms. That is
// done with the grants of the window, if they are at most 1000 or the number left
// is missing, and with those that have left it since the last question.
//
// A request for more than the rate is an error. It writes nothing: it neither
// sets a rate nor renews a keep-alive.
package window
