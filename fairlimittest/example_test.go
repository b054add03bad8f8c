package fairlimittest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

func ExampleWaitFor() {
	t, end := aTest() // in a test, its *testing.T
	defer end()

	limiter := fairlimittest.New(t, fairlimit.Every(time.Hour))
	_ = limiter.Wait(t.Context()) // goes at once

	ctx, shutDown := context.WithCancel(t.Context())
	left := make(chan error)
	for range 2 {
		go func() { left <- limiter.Wait(ctx) }()
	}
	fairlimittest.WaitFor(t, limiter, 2)
	fmt.Println("two callers wait")

	shutDown()
	fmt.Println(errors.Is(<-left, context.Canceled), errors.Is(<-left, context.Canceled))
	// Output:
	// two callers wait
	// true true
}

func ExampleStart() {
	t, end := aTest() // in a test, its *testing.T
	defer end()

	server := fairlimittest.Start(t)
	here := server.Queue(t, "tax-office", fairlimit.Every(time.Hour))
	there, err := fairlimit.New(server.Client(t), "tax-office", fairlimit.Every(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, process := range []fairlimit.Limiter{here, there} {
		ok, err := process.Allow(t.Context())
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
