// Command bench shows who is fair. It puts callers in many processes under one
// quota, lets them call an upstream that keeps a strict log, and reports what
// that upstream saw. Its sub-command speed shows what the library costs, and
// soak whether it keeps its promises while things break.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/bench/internal/speed"
)

// asClient is the role of the processes that call.
const asClient = "client"

// Exit statuses.
const (
	fine      = 0
	faulty    = 1 // something went wrong while measuring
	cannotRun = 2 // what is asked for cannot be done
)

func main() {
	switch os.Getenv(run.Role) {
	case asClient:
		signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
		if err := run.Client(os.Stdin, os.Stdout); err != nil {
			os.Exit(faulty)
		}
		return
	case run.Simulator:
		run.SimulatorMain()
	case speed.Role:
		speed.Main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr *os.File) int {
	if len(args) > 0 && args[0] == "speed" {
		return runSpeed(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "soak" {
		return runSoak(ctx, args[1:], stdout, stderr)
	}
	p, status, done := asked(parse, args, stdout, stderr)
	switch {
	case done:
		return status
	case p.list:
		list(stdout)
		return fine
	}
	faults, err := compare(ctx, p, stdout, stderr)
	switch {
	case err != nil:
		return refuse(stderr, err)
	case faults > 0:
		return faulty
	}
	return fine
}

// asked is what a command line asks for, as parse reads it. If nothing is left
// to do, done is true: what was to be said is said, and status is what to end
// with.
func asked[T any](
	parse func(args []string, help io.Writer) (T, error), args []string, stdout, stderr io.Writer,
) (p T, status int, done bool) {
	p, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return p, fine, true
	case err != nil:
		return p, refuse(stderr, err), true
	}
	return p, fine, false
}

func refuse(stderr io.Writer, err error) int {
	fmt.Fprintln(stderr, "bench:", err)
	return cannotRun
}

func list(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenarios")
	for _, s := range scenario.All {
		fmt.Fprintf(table, "  %s\t%s%s\n", s.Name, s.About, own(s.Load))
	}
	fmt.Fprintln(table, "\nengines")
	for _, e := range engines.All {
		fmt.Fprintf(table, "  %s\t%s\n", e.Name, e.About)
	}
	_ = table.Flush()
}

// own says how a scenario's load differs from the usual one.
func own(l scenario.Load) string {
	var ways []string
	add := func(differs bool, format string, arg any) {
		if differs {
			ways = append(ways, fmt.Sprintf(format, arg))
		}
	}
	add(l.Clients > 0, "-clients %d", l.Clients)
	add(l.Callers > 0, "-callers %d", l.Callers)
	add(l.Quota.Permits > 0, "-quota %v", l.Quota)
	add(l.Quota.Burst > 0, "-burst %d", l.Quota.Burst)
	add(l.Guard > 0, "-guard %v", l.Guard)
	add(l.Ceiling.Permits > 0, "a ceiling of %v for each client", l.Ceiling)
	add(l.Duration > 0, "-duration %v", l.Duration)
	if len(ways) == 0 {
		return ""
	}
	return " (" + strings.Join(ways, " ") + ")"
}
