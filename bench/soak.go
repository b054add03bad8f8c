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

// soakPlan is what the command line asks for.
type soakPlan struct {
	run  soak.Run
	json string
}

// parseSoak reads the command line behind "soak". What -h prints goes to help,
// and the error is flag.ErrHelp.
func parseSoak(args []string, help io.Writer) (p soakPlan, err error) {
	flags := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	flags.DurationVar(&p.run.Duration, "duration", 3*time.Minute, "`time` for which callers call and things break")
	flags.Uint64Var(&p.run.Seed, "seed", 0,
		"`number` that decides what callers do and what breaks (default: another each time)")
	flags.StringVar(&p.json, "json", "", "`file` for the report as JSON; - is standard output")
	if err := readFlags(flags, args, soakIntro, help); err != nil {
		return p, err
	}
	if p.run.Duration <= 0 {
		return p, fmt.Errorf("-duration is %v, want more than 0", p.run.Duration)
	}
	if p.run.Seed == 0 {
		p.run.Seed = 1 + rand.Uint64N(1<<32)
	}
	return p, nil
}

// runSoak is the command "soak". It ends as faulty only where a promise was
// broken.
func runSoak(ctx context.Context, args []string, stdout, stderr *os.File) error {
	p, err := parseSoak(args, stdout)
	if err != nil {
		return err
	}
	lines, table, err := outputs(p.json, stdout, stderr)
	if err != nil {
		return err
	}
	defer lines.Close()
	p.run.Progress = stderr
	report, err := p.run.Do(ctx)
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
