// Command bench shows who is fair. It puts callers in many processes under one
// quota, lets them call an upstream that keeps a strict log, and reports what
// that upstream saw. Its sub-command speed shows what the library costs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

// Exit statuses.
const (
	fine      = 0
	faulty    = 1 // something went wrong while measuring
	cannotRun = 2 // what is asked for cannot be done
)

func main() {
	if os.Getenv(run.Role) == run.Client {
		run.ClientMain()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errFaulty says that something went wrong while measuring. What it was is told
// already.
var errFaulty = errors.New("something went wrong")

func execute(ctx context.Context, args []string, stdout, stderr *os.File) int {
	run := compare
	if len(args) > 0 && args[0] == "speed" {
		run, args = runSpeed, args[1:]
	}
	switch err := run(ctx, args, stdout, stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return fine
	case errors.Is(err, errFaulty):
		return faulty
	default:
		fmt.Fprintln(stderr, "bench:", err)
		return cannotRun
	}
}

func list(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenarios\tquota\tguard\tclients\tcallers\tduration\t")
	for _, s := range scenario.All {
		l := s.Load.Or(scenario.Default).Guarded()
		fmt.Fprintf(table, "  %s\t%v\t%v\t%d\t%v\t%v\t%s\n",
			s.Name, l.Quota, l.Guard, l.Clients, s.CallersOf(l), l.Duration, s.About)
	}
	_ = table.Flush()
	fmt.Fprintln(table, "\nengines")
	for _, e := range engines.All {
		fmt.Fprintf(table, "  %s\t%s\n", e.Name, e.About)
	}
	_ = table.Flush()
}
