// Package fairlimit lets programs on many machines share one strict upstream quota in order. A caller asks Redis once, gets the exact time to
// sleep, sleeps once, goes. Nobody polls, nobody overtakes, nobody starves.
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1))
//	...
//	err = limiter.Wait(ctx) // this caller's turn, among all callers on all machines
//
// # Engines
//
// Who decides is an engine, chosen with [WithEngine]. Package fair, the default, is a reservation queue: FIFO, exact, strict. Package window keeps
// what Redisson's RRateLimiter keeps, so that Go and Java programs can share one limiter; it is strict and not fair. Everything else, the waiting,
// the combining of callers, the giving back, is done here, once, for both.
//
// # Clocks
//
// Time is read from Redis only, inside the script. Clients are told how long to sleep, not until when, and sleep on their monotonic clock: their
// wall clocks may be wrong, differ or step without effect. A caller counts its sleep from the arrival of the answer, so it is late by what the
// answer took, and never early but for what its clock gains while it sleeps (100 ppm is 0.1 ms a second).
//
// # Combining
//
// While one call of a [Limiter] value is under way, further callers line up; all of them go out in the next call, in the order in which they came.
// A caller alone waits for nobody. There is no timer, and no goroutine while nobody calls. Use one Limiter value for one name in a process: it
// keeps order among its callers exactly, and costs Redis one call for many of them.
//
// # Errors
//
// Whatever Redis says other than yes is an error, never leave to go. Match them with errors.Is and errors.As: [RefusedError] and the sentinels below.
// A call whose answer was lost is not repeated, since it might consume twice: it returns [ErrOutcomeUnknown].
package fairlimit
