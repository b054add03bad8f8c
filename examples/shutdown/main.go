// Command shutdown shows a service that ends without taking anything from
// others: at SIGTERM it gives back the turns that its callers still wait for, and
// lets calls end that have begun.
//
// The ctx of the wait ends with the signal. Wait then returns an error, and its
// permits go back, so that other processes move up. The call itself gets a ctx
// that the signal does not end: its turn is used. Exit only after all of them
// have returned and Redis has heard of it: a process that is gone gives nothing
// back.
//
//	shutdown -redis localhost:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "the address of Redis")
	name := flag.String("name", "tax-office", "the name of the queue")
	callers := flag.Int("callers", 100, "how many wait at once")
	flag.Parse()
	if err := run(*addr, *name, *callers); err != nil {
		log.Fatal(err)
	}
}

func run(addr, name string, callers int) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }() // after the last permit went back
	queue, err := fairlimit.NewQueue(rdb, name, fairlimit.Every(10*time.Second))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			if queue.Wait(ctx) == nil {
				call(context.WithoutCancel(ctx))
			}
		})
	}
	calls.Wait()
	return settle(queue)
}

// settle returns when Redis has heard of all that was given back. Wait does not
// stay for that longer than 25 ms. What one Queue gives back goes in order, and
// Cancel returns when it is done, so a last one is enough.
func settle(queue *fairlimit.Queue) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	last, err := queue.ReserveN(ctx, 1)
	if err != nil {
		return err
	}
	return last.Cancel(ctx)
}

// call stands for the call of the upstream. It has a bound of its own, so that
// the process does end.
func call(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	fmt.Println("begun")
	select {
	case <-time.After(time.Second):
		fmt.Println("done")
	case <-ctx.Done():
		fmt.Println("given up")
	}
}
