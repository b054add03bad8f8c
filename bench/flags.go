package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// plan is what the command line asks for.
type plan struct {
	rounds  []round
	engines []engines.Engine
	redis   string
	json    string
	list    bool

	simulate bool
	verbose  bool
	out      string // directory of the pictures; empty: a new one
	command  string // the command line, to be shown
}

// round is one scenario under its load.
type round struct {
	scenario scenario.Scenario
	load     scenario.Load
	rehearse bool // the guard follows from what the machine does
}

// mostCallers is how many a machine holds in all: each has a connection of its
// own to the upstream, whose other end is in this process.
const mostCallers = 10_000

// holds returns an error if there are more callers than a machine holds. In
// virtual time they have no connections.
func (r round) holds() error {
	const most = "a machine holds at most %d callers, each with a connection of its own; -simulate holds more"
	switch l := r.load; {
	case l.Clients > mostCallers:
		return fmt.Errorf("-clients is %d: "+most, l.Clients, mostCallers)
	case l.Callers > mostCallers:
		return fmt.Errorf("-callers is %d: "+most, l.Callers, mostCallers)
	}
	callers := 0
	for _, n := range r.scenario.CallersOf(r.load) {
		callers += n
	}
	if callers > mostCallers {
		return fmt.Errorf("%s: -clients %d with -callers %d are %d callers: "+most,
			r.scenario.Name, r.load.Clients, r.load.Callers, callers, mostCallers)
	}
	return nil
}

const intro = `bench lets callers in many processes share one quota. It shows who got through when, as the
upstream saw it.

  go run ./bench                                on an embedded Redis, half a minute
  go run ./bench -redis localhost:6379          on a real Redis
  go run ./bench -scenario all -json out.json   every scenario, and the figures for a program
  go run ./bench -simulate -duration 1h         in virtual time, a minute
  go run ./bench speed                          how fast it is (speed -h explains)
  go run ./bench soak                           whether it keeps its promises while things break (soak -h)

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

// parse reads the command line. What -h prints goes to help, and the error is
// flag.ErrHelp.
func parse(args []string, help io.Writer) (p plan, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	engineNames := flags.String("engines", "fair,window", "`names` of the engines to compare, or all")
	scenarioName := flags.String("scenario", "steady", "`names` of the scenarios to run, or all")
	asked := scenario.Default
	quota := flags.String("quota", asked.Quota.String(), "the upstream's rule, `permits/duration`")
	flags.IntVar(&asked.Quota.Burst, "burst", 0, "`permits` that may go back to back; 0 is the whole quota")
	flags.DurationVar(&asked.Guard, "guard", 0,
		"`duration` by which engines lengthen the quota's window, if they can "+
			"(default: twice the delays of a rehearsal, at least 10ms)")
	flags.IntVar(&asked.Clients, "clients", asked.Clients, "`processes` that call")
	flags.IntVar(&asked.Callers, "callers", asked.Callers, "`goroutines` that call, in each process")
	flags.DurationVar(&asked.Duration, "duration", asked.Duration, "`time` for which each scenario runs on each engine")
	flags.StringVar(&p.redis, "redis", "",
		"`host:port` of a Redis to use instead of an embedded one, or a redis:// URL")
	flags.Uint64Var(&asked.Seed, "seed", asked.Seed, "`number` that decides the callers' choices")
	flags.StringVar(&p.json, "json", "",
		"`file` for the figures as JSON, one line for each scenario; - is standard output")
	flags.BoolVar(&p.simulate, "simulate", false,
		"run in virtual time: a day takes minutes, and the same -seed gives the same figures")
	flags.StringVar(&p.out, "out", "",
		"`directory` for the page with its pictures; the word none for no page (default: a new temporary directory)")
	flags.BoolVar(&p.verbose, "v", false, "print every row, not just one screen")
	flags.BoolVar(&p.list, "list", false, "list the scenarios and engines, and end")

	if err := readFlags(flags, args, intro, help); err != nil {
		return p, err
	}

	if p.simulate && p.redis != "" {
		return p, errors.New("-simulate has a Redis of its own in virtual time: leave -redis out")
	}
	p.command = commandLine(args)

	parsed, err := scenario.ParseQuota(*quota)
	if err != nil {
		return p, fmt.Errorf("-quota: %w", err)
	}
	asked.Quota.Permits, asked.Quota.Per = parsed.Permits, parsed.Per
	if p.engines, err = pick("-engines", *engineNames, engines.All, engines.Named); err != nil {
		return p, err
	}
	scenarios, err := pick("-scenario", *scenarioName, scenario.All, scenario.Named)
	if err != nil {
		return p, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, s := range scenarios {
		l := loadOf(s, asked, given)
		r := round{s, l, !given["guard"] && !p.simulate}
		if err := l.Check(); err != nil {
			return p, err
		}
		if err := r.holds(); err != nil && !p.simulate {
			return p, err
		}
		p.rounds = append(p.rounds, r)
	}
	return p, nil
}

// loadOf is the scenario's own load. Flags that were given override it.
func loadOf(s scenario.Scenario, asked scenario.Load, given map[string]bool) scenario.Load {
	l := s.Load.Or(scenario.Default)
	if given["quota"] {
		l.Quota.Permits, l.Quota.Per = asked.Quota.Permits, asked.Quota.Per
		l.Quota.Burst = min(l.Quota.Burst, l.Quota.Permits)
	}
	if given["burst"] {
		l.Quota.Burst = asked.Quota.Burst
	}
	if given["clients"] {
		l.Clients = asked.Clients
	}
	if given["callers"] {
		l.Callers = asked.Callers
	}
	if given["duration"] {
		l.Duration = asked.Duration
	}
	l.Seed = asked.Seed
	if s.Within != nil {
		l.Within = s.Within(l)
	}
	if given["guard"] {
		l.Guard = asked.Guard
		return l
	}
	return l.Guarded(0)
}

// pick finds each of a list of names, none of them twice, or all there are.
func pick[T any](flag, list string, all []T, named func(string) (T, bool)) (picked []T, err error) {
	if list == "all" {
		return all, nil
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		one, found := named(name)
		if !found {
			return nil, fmt.Errorf("%s: there is no %q (-list shows what there is)", flag, name)
		}
		if seen[name] {
			return nil, fmt.Errorf("%s: %q is there twice", flag, name)
		}
		seen[name] = true
		picked = append(picked, one)
	}
	return picked, nil
}
