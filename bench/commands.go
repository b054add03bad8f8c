package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/fairlimit/fairlimit/bench/internal/speed"
)

const speedIntro = `bench speed measures how fast the library is, each figure beside its yardstick, on a real Redis.

  go run ./bench speed                             a redis-server of its own, two minutes
  go run ./bench speed -quick                      a quarter of that
  go run ./bench speed -redis localhost:6379
  go run ./bench speed -rows script                what the scripts cost the server

`

// parseSpeed reads the command line behind "speed".
func parseSpeed(args []string, help io.Writer) (r speed.Run, err error) {
	flags := flag.NewFlagSet("bench speed", flag.ContinueOnError)
	flags.StringVar(&r.Redis, "redis", "",
		"`host:port` of a Redis to use, or a redis:// URL (default: a redis-server of its own)")
	quick := flags.Bool("quick", false, "fewer and shorter rounds, for a look in between")
	flags.StringVar(&r.Rows, "rows", "", "`text`: only rows that have it in their names, such as script or Wait")
	err = readFlags(flags, args, speedIntro, help)
	r.Rounds, r.Round = 7, "400ms"
	if *quick {
		r.Rounds, r.Round = 3, "150ms"
	}
	return r, err
}

// runSpeed is the command "speed".
func runSpeed(ctx context.Context, args []string, stdout, stderr *os.File) error {
	r, err := parseSpeed(args, stdout)
	if err != nil {
		return err
	}
	r.Progress = stderr
	server, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(stdout, "%s · %d processors · %s/%s · %s\n\n",
		server.Name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return r.Table(ctx, server, stdout)
}
