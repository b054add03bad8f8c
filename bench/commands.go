package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/soak"
	"github.com/fairlimit/fairlimit/bench/internal/speed"
)

const soakIntro = `bench soak breaks things under load, and judges whether every promise is kept. It starts a
redis-server of its own.

  go run ./bench soak                       three minutes
  go run ./bench soak -duration 1h -seed 7

`

// parseSoak reads the command line behind "soak".
func parseSoak(args []string, help io.Writer) (r soak.Run, json string, err error) {
	flags := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	flags.DurationVar(&r.Duration, "duration", 3*time.Minute, "`time` for which callers call and things break")
	flags.Uint64Var(&r.Seed, "seed", 0,
		"`number` that decides what callers do and what breaks (default: another each time)")
	flags.StringVar(&json, "json", "", "`file` for the report as JSON; - is standard output")
	err = readFlags(flags, args, soakIntro, help)
	if err == nil && r.Duration <= 0 {
		err = fmt.Errorf("-duration is %v, want more than 0", r.Duration)
	}
	if r.Seed == 0 {
		r.Seed = 1 + rand.Uint64N(1<<32)
	}
	return r, json, err
}

// runSoak is the command "soak". It ends as faulty only where a promise was
// broken.
func runSoak(ctx context.Context, args []string, stdout, stderr *os.File) error {
	r, path, err := parseSoak(args, stdout)
	if err != nil {
		return err
	}
	lines, table, err := outputs(path, stdout, stderr)
	if err != nil {
		return err
	}
	defer lines.Close()
	r.Progress = stderr
	report, err := r.Do(ctx)
	if errors.Is(err, soak.ErrStuck) {
		fmt.Fprintln(stderr, "bench:", err)
		return errFaulty
	}
	if err == nil {
		err = errors.Join(json.NewEncoder(lines).Encode(report), report.Table(table))
	}
	if err == nil && len(report.Broken) > 0 {
		err = errFaulty
	}
	return err
}

const speedIntro = `bench speed measures how fast the library is, each figure beside its yardstick, on a real Redis.

  go run ./bench speed                             a redis-server of its own, some four minutes
  go run ./bench speed -quick                      half of that
  go run ./bench speed -redis localhost:6379
  go run ./bench speed -rows throughput,alone
  go run ./bench speed -rows script -quick         one request of what people configure

`

// parseSpeed reads the command line behind "speed".
func parseSpeed(args []string, help io.Writer) (r speed.Run, json string, err error) {
	flags := flag.NewFlagSet("bench speed", flag.ContinueOnError)
	flags.StringVar(&r.Redis, "redis", "",
		"`host:port` of a Redis to use, or a redis:// URL (default: a redis-server of its own)")
	flags.StringVar(&json, "json", "",
		"`file` for the figures as JSON, one object a line for each; - is standard output")
	quick := flags.Bool("quick", false, "fewer and shorter rounds, for a look in between")
	rows := flags.String("rows", "all", "`names` of what to measure: "+strings.Join(speed.Names(), ","))
	if err := readFlags(flags, args, speedIntro, help); err != nil {
		return r, json, err
	}
	r.Scale = speed.Full
	if *quick {
		r.Scale = speed.Quick
	}
	r.Groups, err = speed.Groups(*rows)
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
