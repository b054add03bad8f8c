package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/fairlimit/fairlimit/bench/internal/speed"
)

const speedIntro = `bench speed measures how fast the library is, each figure beside its yardstick, on a real Redis.

  go run ./bench speed                             a redis-server of its own, two minutes
  go run ./bench speed -redis localhost:6379
  go run ./bench speed -rows script                what the scripts cost the server

`

// runSpeed is the command "speed".
func runSpeed(ctx context.Context, args []string, stdout, stderr *os.File) error {
	r := speed.Run{Rounds: 7, Round: "400ms", Progress: stderr}
	flags := flag.NewFlagSet("bench speed", flag.ContinueOnError)
	flags.StringVar(&r.Redis, "redis", "",
		"`host:port` of a Redis to use, or a redis:// URL (default: a redis-server of its own)")
	flags.StringVar(&r.Rows, "rows", "", "`text`: only rows that have it in their names, such as script or Wait")
	if err := readFlags(flags, args, speedIntro, stdout); err != nil {
		return err
	}
	server, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(stdout, "%s · %d processors · %s/%s · %s\n\n",
		server.Name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return r.Table(ctx, server, stdout)
}
