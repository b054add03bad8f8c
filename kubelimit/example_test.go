package kubelimit_test

import (
	"fmt"
	"log"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/kubelimit"
)

// Items that failed come back in turns that all processes share. A work queue asks
// this for them: workqueue.NewTypedRateLimitingQueue(items).
func ExampleItemRateLimiter() {
	redis, err := embedded.Start() // a real program connects to its own
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	queue, err := fairlimit.NewQueue(redis.Client(), "cluster-a", fairlimit.Every(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	items := &kubelimit.ItemRateLimiter[string]{Reserver: queue}
	for _, item := range []string{"default/a", "default/b", "default/a"} {
		fmt.Println(item, "comes in", items.When(item).Round(time.Second))
	}
	// Output:
	// default/a comes in 0s
	// default/b comes in 1m0s
	// default/a comes in 2m0s
}
