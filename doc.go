// Package fairlimit lets programs on many machines share one strict upstream
// quota in order. A caller asks Redis once, learns how long to sleep, sleeps
// once and goes. Nobody polls, nobody overtakes, and the quota holds in every
// window.
//
// The order is that of calls: first come, first served. It is not fair to
// services. If one service queues a thousand calls, the next service waits for
// all of them. To share the quota between services, use [WithFlow].
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1))
//	...
//	err = limiter.Wait(ctx) // this caller's turn, among all callers on all machines
//
// # Words
//
// A quota is at most so many permits in any window of so long. A turn is
// permission to use permits from a given time on, which is its slot. A turn is
// held, or lies ahead, until its slot has come. The backlog is the turns that
// lie ahead. A question is one call to Redis.
//
// # Engines
//
// An engine decides who goes when. [WithEngine] chooses it. Package fair, the
// default, keeps a queue: FIFO, exact, strict. [NewQueue] returns a [Queue], which
// can also reserve turns, pause the queue and change its quotas. Package window
// keeps the same keys as Redisson's RRateLimiter, so that Go and Java programs
// can share one limiter. It is strict, but it has no order. This package does
// the waiting, the combining of callers and the giving back for both.
//
// # Clocks
//
// Only the clock of Redis counts, and only the script reads it. Clients are told
// how long to sleep, not until when. They sleep on their monotonic clocks, so
// their wall clocks may be wrong, differ or step without effect. A caller counts
// its sleep from the arrival of the answer, so it is late by the time that the
// answer took. It is early only by what its clock gains while it sleeps: 100 ppm
// is 0.1 ms a second.
//
// # Combining
//
// While one question of a [Limiter] value is under way, further callers line up.
// All of them go out in the next question, in the order in which they came. A
// caller alone waits for nobody. Use one Limiter value for each name in a
// process: it keeps its callers in order, and one call to Redis serves many.
//
// # Errors
//
// If Redis cannot be asked, does not answer or says no, the caller gets an
// error. No error grants a turn. Match errors with errors.Is and errors.As:
// there are [RefusedError], the sentinels below, and the errors of Redis. A call
// whose answer was lost is not repeated, because it could consume twice. It
// returns [ErrOutcomeUnknown].
package fairlimit
