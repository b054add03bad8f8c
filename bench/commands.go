package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/speed"
)

const speedIntro = `bench speed measures how fast the library is, each figure beside its yardstick, on a real Redis.

  go run ./bench speed                             a redis-server of its own, two minutes
  go run ./bench speed -quick                      a quarter of that
  go run ./bench speed -redis localhost:6379
  go run ./bench speed -rows script                what the scripts cost the server

`

// parseSpeed reads the command line behind "speed".
func parseSpeed(args []string, help io.Writer) (r speed.Run, json string, err error) {
	flags := flag.NewFlagSet("bench speed", flag.ContinueOnError)
	flags.StringVar(&r.Redis, "redis", "",
		"`host:port` of a Redis to use, or a redis:// URL (default: a redis-server of its own)")
	flags.StringVar(&json, "json", "",
		"`file` for the figures as JSON, one object a line for each; - is standard output")
	quick := flags.Bool("quick", false, "fewer and shorter rounds, for a look in between")
	flags.StringVar(&r.Rows, "rows", "", "`text`: only rows that have it in their names, such as script, call or size")
	err = readFlags(flags, args, speedIntro, help)
	r.Rounds, r.Round = 7, 500*time.Millisecond
	if *quick {
		r.Rounds, r.Round = 3, 200*time.Millisecond
	}
	return r, json, err
}

// runSpeed is the command "speed".
func runSpeed(ctx context.Context, args []string, stdout, stderr *os.File) error {
	r, json, err := parseSpeed(args, stdout)
	if err != nil {
		return err
	}
	lines, table, err := outputs(json, stdout, stderr)
	if err != nil {
		return err
	}
	defer lines.Close()
	r.JSON, r.Progress = lines, stderr
	all, err := r.Measure(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "\n%s · %d processors · %s/%s · %s\n\n",
		all.Server, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if err := speed.Table(table, all.Figures); err != nil || all.Failed {
		return errFaulty
	}
	return nil
}
