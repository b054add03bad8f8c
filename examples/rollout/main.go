// Command rollout shows what a rolling deploy with another quota does, and how to
// change a quota without one.
//
// While an old and a new version run, they share one queue, and each decision
// obeys the quota of the version that asks. So a narrower quota holds only once
// the last old process is gone. What the other version has taken counts for both.
//
// With -stored, a quota that is stored beside the queue takes the place of the
// one in the program. Then all processes obey the new one from their next
// decision on, whatever version they are:
//
//	fairlimit quota tax-office 4/1h
//
// So first deploy WithStoredQuota to all processes, and then store the quota.
//
// Each line of the input is a call.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "the address of Redis")
	name := flag.String("name", "tax-office", "the name of the queue")
	quota := flag.String("quota", "10/1h", "the quota of this version")
	stored := flag.Bool("stored", false, "prefer a quota that is stored")
	flag.Parse()
	if err := run(*addr, *name, *quota, *stored, os.Stdin); err != nil {
		log.Fatal(err)
	}
}

func run(addr, name, text string, stored bool, calls io.Reader) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	quota, err := fairlimit.ParseQuota(text)
	if err != nil {
		return err
	}
	var options []fairlimit.Option
	if stored {
		options = append(options, fairlimit.WithStoredQuota())
	}
	queue, err := fairlimit.NewQueue(rdb, name, quota, options...)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(calls)
	for lines.Scan() {
		call(queue)
	}
	return lines.Err()
}

// call waits a second at most.
func call(queue *fairlimit.Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := queue.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("called")
}
