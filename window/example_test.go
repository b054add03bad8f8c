package window_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/window"
)

func Example() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()

	// What a Java process has set up with Redisson, or what sets it up for one.
	admin, err := window.Open(server.Client(), "upstream")
	if err != nil {
		panic(err)
	}
	fmt.Println(admin.TrySetRate(ctx, window.Rate{Permits: 3, Per: time.Hour}))

	// The rate in Redis wins over the limiter's own.
	limiter, err := fairlimit.New(server.Client(), "upstream", fairlimit.PerSecond(1), fairlimit.WithEngine(window.New))
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.AllowN(ctx, 2))
	fmt.Println(admin.AvailablePermits(ctx))
	fmt.Println(limiter.AllowN(ctx, 2))

	// Output:
	// true <nil>
	// true <nil>
	// 1 <nil>
	// false <nil>
}
