package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
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

	limiter, err := fairlimit.New(server.Client(), "tax-office", fairlimit.Every(50*time.Millisecond))
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

// The upstream answered "429, Retry-After: 30": nobody goes for so long, in any
// process. Whoever cannot wait until then is refused and told why.
func ExampleQueue_Pause() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "tax-office", fairlimit.PerSecond(1))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(queue.Pause(ctx, 30*time.Second))
	err = queue.Wait(ctx)
	fmt.Println(errors.Is(err, fairlimit.ErrPaused))
	// Output:
	// <nil>
	// true
}

// A call to a language model counts as one call and as many tokens as it may
// use. Once it is known what it used, the rest goes to others.
func ExampleQueue_Take() {
	server := redisServer()
	defer server.Close()

	queue, err := fairlimit.NewQueue(server.Client(), "llm", fairlimit.PerMinute(60),
		fairlimit.WithUnit("tokens", fairlimit.PerMinute(20_000)))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	turn, err := queue.Take(ctx, fairlimit.Amounts{"tokens": 4000})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Settle(ctx, fairlimit.Amounts{"tokens": 700}))
	status, err := queue.Status(ctx)
	fmt.Println(status.Units["tokens"].Available, err)
	// Output:
	// <nil>
	// 19300 <nil>
}

// Each tenant has two calls a minute, and all of them together five.
func ExampleChain() {
	server := redisServer()
	defer server.Close()

	queue := func(name string, quota fairlimit.Quota) fairlimit.Limiter {
		limiter, err := fairlimit.New(server.Client(), name, quota)
		if err != nil {
			log.Fatal(err)
		}
		return limiter
	}
	all := queue("all tenants", fairlimit.PerMinute(5))
	for _, tenant := range []string{"acme", "globex"} {
		limiter := fairlimit.Chain(queue(tenant, fairlimit.PerMinute(2)), all)
		for range 3 {
			allowed, err := limiter.Allow(context.Background())
			fmt.Println(tenant, allowed, err)
		}
	}
	// Output:
	// acme true <nil>
	// acme true <nil>
	// acme false <nil>
	// globex true <nil>
	// globex true <nil>
	// globex false <nil>
}

// While Redis fails, everybody goes. Give a *rate.Limiter in place of FailOpen,
// and each process has a limit of its own then.
func ExampleFallback() {
	server := redisServer()
	queue, err := fairlimit.New(server.Client(), "customs", fairlimit.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	limiter := fairlimit.Fallback(queue, fairlimit.FailOpen)
	ctx := context.Background()
	fmt.Println(limiter.Allow(ctx))
	fmt.Println(limiter.Allow(ctx))
	server.Close()
	fmt.Println(limiter.Allow(ctx))
	// Output:
	// true <nil>
	// false <nil>
	// true <nil>
}
