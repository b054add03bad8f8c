package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// plan is what the command line asks for.
type plan struct {
	rounds []round
	redis  string
	json   string
	list   bool
	out    string // directory of the pictures; empty: a new one
}

// round is one scenario under its load.
type round struct {
	scenario scenario.Scenario
	load     scenario.Load
	engines  []engines.Engine
}

const intro = `bench lets callers in many processes share one quota. It shows who got through when, as the
upstream saw it.

  go run ./bench                                on an embedded Redis, half a minute
  go run ./bench -redis localhost:6379          on a real Redis
  go run ./bench -scenario all -json out.json   every scenario, and the figures for a program
  go run ./bench speed                          how fast it is (speed -h explains)

A scenario may have clients, callers, a quota or a guard of its own. -list shows them, and flags override
them.

`

// readFlags sets the flags that the arguments name. What -h prints, the intro
// and the flags, goes to help, and the error is flag.ErrHelp.
func readFlags(flags *flag.FlagSet, args []string, intro string, help io.Writer) error {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, intro)
		flags.SetOutput(help)
		flags.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w (-h explains the flags)", err)
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not a flag (-h explains the flags)", flags.Arg(0))
	}
	return nil
}

// flags set the plan, a load, and the names of engines and scenarios.
func (p *plan) flags(l *scenario.Load, engines, scenarios *string) *flag.FlagSet {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(engines, "engines", "fair,window", "`names` of the engines to compare, or all")
	flags.StringVar(scenarios, "scenario", "steady", "`names` of the scenarios to run, or all")
	flags.Func("quota", "the upstream's rule, `permits/duration` (default 20/1s)", func(text string) error {
		q, err := fairlimit.ParseQuota(text)
		l.Quota.Permits, l.Quota.Per, l.Quota.Burst = q.Permits, q.Per, cmp.Or(q.Burst, l.Quota.Burst)
		return err
	})
	flags.IntVar(&l.Quota.Burst, "burst", l.Quota.Burst, "`permits` that may go back to back; 0 is the whole quota")
	flags.DurationVar(&l.Guard, "guard", l.Guard,
		"`duration` by which engines lengthen the quota's window, if they can "+
			"(default: a twentieth of that window, 250ms at most)")
	flags.IntVar(&l.Clients, "clients", l.Clients, "`processes` that call")
	flags.IntVar(&l.Callers, "callers", l.Callers, "`goroutines` that call, in each process")
	flags.DurationVar(&l.Duration, "duration", l.Duration, "`time` for which each scenario runs on each engine")
	flags.StringVar(&p.redis, "redis", "",
		"`host:port` of a Redis to use instead of an embedded one, or a redis:// URL")
	flags.Uint64Var(&l.Seed, "seed", l.Seed, "`number` that decides the callers' choices")
	flags.StringVar(&p.json, "json", "",
		"`file` for the figures as JSON, one line for each scenario; - is standard output")
	flags.StringVar(&p.out, "out", "",
		"`directory` for the page with its pictures; the word none for no page (default: a new temporary directory)")
	flags.BoolVar(&p.list, "list", false, "list the scenarios and engines, and end")
	return flags
}

// parse reads the command line. What -h prints goes to help, and the error is
// flag.ErrHelp.
func parse(args []string, help io.Writer) (p plan, err error) {
	var engineNames, scenarioNames string
	load := scenario.Default
	if err := readFlags(p.flags(&load, &engineNames, &scenarioNames), args, intro, help); err != nil {
		return p, err
	}
	scenarios, err := pick("-scenario", scenarioNames, scenario.All, func(s scenario.Scenario) string { return s.Name })
	if err != nil {
		return p, err
	}
	for _, s := range scenarios {
		r := round{scenario: s, load: s.Load.Or(scenario.Default)}
		flags := p.flags(&r.load, &engineNames, &scenarioNames)
		_ = flags.Parse(args) // those that are given override the scenario's own
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["engines"] && s.Engines != "" {
			engineNames = s.Engines
		}
		can := engines.For(s, r.load)
		r.engines, err = pick("-engines", engineNames, can, func(e engines.Engine) string { return e.Name })
		if err != nil {
			return p, err
		}
		if !given["burst"] {
			r.load.Quota.Burst = min(r.load.Quota.Burst, r.load.Quota.Permits)
		}
		if !given["guard"] {
			r.load = r.load.Guarded()
		}
		if err := r.load.Check(); err != nil {
			return p, err
		}
		p.rounds = append(p.rounds, r)
	}
	return p, nil
}

// pick finds each of a list of names, or all there are.
// "few" is each of those called "few-...".
func pick[T any](flag, list string, all []T, name func(T) string) (picked []T, err error) {
	if list == "all" {
		return all, nil
	}
	for wanted := range strings.SplitSeq(list, ",") {
		wanted = strings.TrimSpace(wanted)
		before := len(picked)
		for _, one := range all {
			if n := name(one); n == wanted || strings.HasPrefix(n, wanted+"-") {
				picked = append(picked, one)
			}
		}
		if len(picked) == before {
			return nil, fmt.Errorf("%s: there is no %q (-list shows what there is)", flag, wanted)
		}
	}
	return picked, nil
}
