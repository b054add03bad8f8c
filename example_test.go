package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/window"
)

// redisServer is a server for one example; a real program connects to its own.
func redisServer() *embedded.Server {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	return server
}

func Example() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.New(server.Client(), "tax-office", fairlimit.Every(2*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if err := limiter.Wait(context.Background()); err != nil { // sleeps until this caller's turn
			log.Fatal(err)
		}
		fmt.Println("call", i)
	}
	// Output:
	// call 0
	// call 1
	// call 2
}

// Two quotas at once: 20 per second, and 30 per 2 minutes. The thirty-first
// permit waits for the longer one, and the turn that it is part of.
func ExampleWithExtraQuota() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.NewQueue(server.Client(), "ledger", fairlimit.PerSecond(20),
		fairlimit.WithExtraQuota(fairlimit.Quota{Permits: 30, Per: 2 * time.Minute}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(limiter.AllowN(ctx, 20))
	turn, err := limiter.ReserveN(ctx, 20)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Delay().Round(time.Second))
	// Output:
	// true <nil>
	// 2m0s
}

// Evenly spaced calls: the upstream allows ten a minute, and would rather not
// have them all at once.
func ExampleQuota() {
	server := redisServer()
	defer server.Close()

	quota := fairlimit.Quota{Permits: 10, Per: time.Minute, Burst: 1}
	limiter, err := fairlimit.NewQueue(server.Client(), "weather", quota)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		turn, err := limiter.ReserveN(context.Background(), 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(turn.Delay().Round(time.Second))
	}
	// Output:
	// 0s
	// 6s
	// 12s
}

// A turn that would come after the deadline is refused at once, and consumes
// nothing.
func ExampleRefusedError() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.New(server.Client(), "archive", fairlimit.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Wait(context.Background()))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = limiter.Wait(ctx)
	var refused *fairlimit.RefusedError
	if errors.As(err, &refused) {
		fmt.Println("too late: try again in", refused.Wait.Round(time.Minute))
	}
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// too late: try again in 1h0m0s
	// true
}

// A program that has something else to do until its turn takes a reservation,
// and gives it back if it changes its mind.
func ExampleNewQueue() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "printer", fairlimit.Every(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 2 {
		turn, err := queue.ReserveN(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("due in", turn.Delay().Round(time.Second))
		if turn.Delay() > 0 {
			fmt.Println("cancelled:", turn.Cancel(ctx))
		}
	}
	status, err := queue.Status(ctx)
	fmt.Println("queued:", status.Queued, err)
	// Output:
	// due in 0s
	// due in 1m0s
	// cancelled: <nil>
	// queued: 0 <nil>
}

// Whoever has done what there was to do sleeps the rest. The turn is over then:
// it can neither be taken again nor given back.
func ExampleReservation_Wait() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "ferry", fairlimit.Every(2*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 2 {
		turn, err := queue.ReserveN(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		// Prepare the call meanwhile.
		fmt.Println(turn.Wait(ctx))
		fmt.Println(errors.Is(turn.Wait(ctx), fairlimit.ErrReservationOver))
	}
	// Output:
	// <nil>
	// true
	// <nil>
	// true
}

// A call that needs permits of two limiters takes both or none. The turn that
// is due at once goes back unused.
func ExampleReservation_Cancel() {
	server := redisServer()
	defer server.Close()

	ctx := context.Background()
	var turns []*fairlimit.Reservation
	for _, name := range []string{"per-user", "per-host"} {
		queue, err := fairlimit.NewQueue(server.Client(), name, fairlimit.PerHour(1))
		if err != nil {
			log.Fatal(err)
		}
		if name == "per-host" {
			fmt.Println(queue.Allow(ctx)) // somebody was here before
		}
		turn, err := queue.ReserveN(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		turns = append(turns, turn)
	}
	for _, turn := range turns {
		fmt.Println(turn.Delay().Round(time.Minute), turn.Cancel(ctx))
	}
	// Output:
	// true <nil>
	// 0s <nil>
	// 1h0m0s <nil>
}

// The upstream answered "429, Retry-After: 30": nobody goes for so long, in any
// process. Whoever cannot wait until then is refused and told why.
func ExampleQueue_Pause() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "tax-office", fairlimit.PerSecond(1))
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Pause(context.Background(), 30*time.Second); err != nil {
		log.Fatal(err)
	}
	status, err := queue.Status(context.Background())
	fmt.Println(status.Paused.Round(time.Second), err)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = queue.Wait(ctx)
	fmt.Println(errors.Is(err, fairlimit.ErrPaused), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// 30s <nil>
	// true true
}

// The upstream sells more: all who were made WithStoredQuota go by the new quota
// from their next question on, in every process.
func ExampleQueue_SetQuotas() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "tax-office", fairlimit.PerHour(1), fairlimit.WithStoredQuota())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(queue.Wait(ctx))

	// Another program, or a person with the command, needs to know the name only.
	steward, err := fairlimit.Open(server.Client(), "tax-office")
	if err != nil {
		log.Fatal(err)
	}
	if err := steward.SetQuotas(ctx, fairlimit.PerHour(4), fairlimit.PerMinute(3)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(queue.WaitN(ctx, 2))
	fmt.Println(queue.Quotas(ctx))
	// Output:
	// <nil>
	// <nil>
	// [4/1h 3/1m] true <nil>
}

// Tenants share ten calls a second, and none of them gets more than two. Whoever
// cannot wait for the next second is refused at once, and holds up nobody else.
func ExampleWithFlowQuota() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "tax-office", fairlimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 900*time.Millisecond)
	defer cancel()
	for _, tenant := range []string{"acme", "globex"} {
		flow, err := queue.Flow(tenant, 1, fairlimit.WithFlowQuota(fairlimit.PerSecond(2)))
		if err != nil {
			log.Fatal(err)
		}
		for range 3 {
			err := flow.Wait(ctx)
			fmt.Println(tenant, err == nil, errors.As(err, new(*fairlimit.RefusedError)))
		}
	}
	// Output:
	// acme true false
	// acme true false
	// acme false true
	// globex true false
	// globex true false
	// globex false true
}

// Programs in Java that use Redisson's RRateLimiter of this name share the
// limiter.
func ExampleWithEngine() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.New(server.Client(), "shared-with-java", fairlimit.PerMinute(2),
		fairlimit.WithEngine(window.New))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		fmt.Println(limiter.Allow(context.Background()))
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

// A process holds no more than three permits ahead; who comes then is told at
// once.
func ExampleWithMaxQueued() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.NewQueue(server.Client(), "scanner", fairlimit.Every(time.Minute),
		fairlimit.WithMaxQueued(3))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limiter.Wait(context.Background()))
	for range 4 {
		_, err := limiter.ReserveN(context.Background(), 1)
		fmt.Println(errors.Is(err, fairlimit.ErrTooManyQueued))
	}
	// Output:
	// <nil>
	// false
	// false
	// false
	// true
}

// local is this process's share of a quota, to be used while Redis is away. A
// *rate.Limiter of golang.org/x/time/rate would do as it is.
type local struct{ left int }

func (l *local) WaitN(_ context.Context, n int) error {
	if n > l.left {
		return errors.New("local: no permits left")
	}
	l.left -= n
	return nil
}

// While Redis fails, a second limiter decides. Without it, nobody goes.
func ExampleWithFallback() {
	server := redisServer()
	limiter, err := fairlimit.New(server.Client(), "customs", fairlimit.PerHour(100),
		fairlimit.WithFallback(&local{left: 2}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(limiter.Wait(ctx))

	server.Close()
	fmt.Println(limiter.Wait(ctx))
	fmt.Println(limiter.Wait(ctx))
	fmt.Println(errors.Is(limiter.Wait(ctx), fairlimit.ErrUnreachable))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true
}

// What happens goes to a log and to a counter of the program's own.
func ExampleWithTrace() {
	server := redisServer()
	defer server.Close()

	limiter, err := fairlimit.New(server.Client(), "tax-office", fairlimit.PerHour(1),
		fairlimit.WithTrace(fairlimit.LogTrace(slog.Default().With("limiter", "tax-office"))),
		fairlimit.WithTrace(&fairlimit.Trace{
			Left: func(permits int, _ time.Duration, err error) { fmt.Println(permits, "went:", err == nil) },
		}))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = limiter.Wait(ctx)
	_ = limiter.Wait(ctx)
	// Output:
	// 1 went: true
	// 1 went: false
}
