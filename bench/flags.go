package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/load"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// plan is what the command line asks for.
type plan struct {
	scenarios []scenario.Scenario
	engines   []engines.Engine
	load      load.Load
	redis     string
	json      string
	list      bool
}

// guardFraction of Per is the guard, where none is given.
const guardFraction = 100

const intro = `bench puts callers in many processes under one quota and shows, from what the upstream saw, who was let through when.

  go run ./bench                             an embedded Redis, half a minute
  go run ./bench -redis localhost:6379       a real one
  go run ./bench -scenario all -json out.json

`

// parse reads the command line. What -h prints goes to help, and the error is flag.ErrHelp.
func parse(args []string, help io.Writer) (p plan, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	engineNames := flags.String("engines", "fair,window", "`names` of the engines to compare")
	scenarioName := flags.String("scenario", "steady", "`name` of the way in which callers behave, or all")
	quota := flags.String("quota", "20/1s", "the upstream's rule, `permits/duration`")
	flags.IntVar(&p.load.Quota.Burst, "burst", 0, "`permits` that may go back to back; 0 is the whole quota")
	guard := flags.Duration("guard", 0, "`duration` by which engines that can are told to lengthen the quota's window (default: a hundredth of it)")
	flags.IntVar(&p.load.Clients, "clients", 4, "`processes` that call")
	flags.IntVar(&p.load.Callers, "callers", 8, "`goroutines` that call in each process")
	flags.DurationVar(&p.load.Duration, "duration", 12*time.Second, "`time` that each scenario runs on each engine")
	flags.StringVar(&p.redis, "redis", "", "`host:port` of a Redis to use instead of an embedded one, or a redis:// URL")
	flags.Uint64Var(&p.load.Seed, "seed", 1, "`number` that the callers' choices follow from")
	flags.StringVar(&p.json, "json", "", "`file` for the figures as JSON, one object a line for each scenario; - is standard output")
	flags.BoolVar(&p.list, "list", false, "list scenarios and engines, and end")

	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, intro)
		flags.SetOutput(help)
		flags.PrintDefaults()
		return p, err
	case err != nil:
		return p, fmt.Errorf("%w (-h explains the flags)", err)
	case flags.NArg() > 0:
		return p, fmt.Errorf("%q is no flag (-h explains those there are)", flags.Arg(0))
	}

	burst := p.load.Quota.Burst
	if p.load.Quota, err = load.ParseQuota(*quota); err != nil {
		return p, fmt.Errorf("-quota: %w", err)
	}
	p.load.Quota.Burst = burst
	p.load.Guard = p.load.Quota.Per / guardFraction
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "guard" {
			p.load.Guard = *guard
		}
	})
	if err := p.load.Check(); err != nil {
		return p, err
	}
	if p.engines, err = pick("-engines", *engineNames, engines.Named); err != nil {
		return p, err
	}
	if *scenarioName == "all" {
		p.scenarios = scenario.All
		return p, nil
	}
	p.scenarios, err = pick("-scenario", *scenarioName, scenario.Named)
	return p, err
}

// pick finds each of a list of names.
func pick[T any](flag, list string, named func(string) (T, bool)) (picked []T, err error) {
	for name := range strings.SplitSeq(list, ",") {
		one, found := named(strings.TrimSpace(name))
		if !found {
			return nil, fmt.Errorf("%s: there is no %q (-list shows what there is)", flag, name)
		}
		picked = append(picked, one)
	}
	return picked, nil
}
