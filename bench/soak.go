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
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/soak"
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
