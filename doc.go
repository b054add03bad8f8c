// Package fairlimit lets programs on many machines share one strict upstream
// quota in order. A caller asks Redis once, learns how long to sleep, sleeps
// once and goes. Nobody polls, nobody overtakes, nobody starves.
//
//	limiter, err := fairlimit.New(rdb, "tax-office", fairlimit.PerSecond(1),
//		fairlimit.WithGuard(50*time.Millisecond)) // for delays on the way
//	...
//	err = limiter.Wait(ctx) // this caller's turn, among all callers on all machines
//
// # The life of one Wait
//
//  1. Wait checks ctx and the number of permits (limiter.go). With
//     [WithFallback], a circuit breaker says whether Redis is to be asked at all
//     (fallback.go, internal/breaker).
//  2. With [WithMaxQueued], the caller is counted, or refused at once
//     (maxqueued.go).
//  3. The caller lines up (wait.go, internal/batch). With [WithFlow], it is asked
//     for only when its flow has room (flow.go). If no question is under way,
//     one goes for it at once. Otherwise it goes in the next one, together with
//     all others who lined up meanwhile.
//  4. The engine sends one script run. In it Redis decides for each of them, in
//     order (package fair or window, package lua). With [WithReplicas], a turn
//     that is not on enough replicas is given back there (replicas.go).
//  5. A granted caller sleeps until its slot, counted from the arrival of the
//     answer (internal/turns). A refused caller gets a [*RefusedError]. On an
//     engine that does not queue, it sleeps and lines up again instead.
//  6. A caller that has slept for longer than [WithPauseWithin] looks once more
//     before it goes, unless another answer brought news of the queue by then.
//     One look serves all callers of the limiter. If the queue was paused, the
//     caller sleeps on, or is refused if its deadline comes first. If the queue
//     was reset, the caller lines up again. If Redis is silent, the caller goes.
//  7. A caller that wakes more than [WithMaxLateness] after its slot has missed
//     its turn. It takes the next turn of its limiter, or lines up again.
//     Otherwise Wait returns nil.
//  8. A caller whose ctx ends gives back what it was granted. Returns line up as
//     callers do, and the two take turns.
//
// # Engines
//
// Who decides is an engine, chosen with [WithEngine]. Package fair, the default,
// is a reservation queue: FIFO, exact, strict. [NewQueue] returns what only such
// an engine can do: reserve, pause, change quotas. Package window keeps what
// Redisson's RRateLimiter keeps, so that Go and Java programs can share one
// limiter. It is strict and not fair. The waiting, the combining of callers and
// the giving back are done here, once, for both.
//
// # Clocks
//
// Time is read from Redis only, inside the script. Clients are told how long to
// sleep, not until when, and sleep on their monotonic clock: their wall clocks
// may be wrong, differ or step without effect. A caller counts its sleep from the
// arrival of the answer, so it is late by what the answer took. It is early only
// by what its clock gains while it sleeps (100 ppm is 0.1 ms a second).
//
// # Combining
//
// While one question of a [Limiter] value is under way, further callers line up.
// All of them go out in the next question, in the order in which they came. A
// caller alone waits for nobody. Use one Limiter value for one name in a process:
// it keeps its callers in order, and costs Redis one call for many of them.
//
// # Errors
//
// Whatever Redis says other than yes is an error, and nobody goes on an error.
// Match errors with errors.Is and errors.As: [RefusedError] and the sentinels
// below. A call whose answer was lost is not repeated, since it might consume
// twice. It returns [ErrOutcomeUnknown].
package fairlimit
