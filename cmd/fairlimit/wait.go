package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

const (
	// longWait is how long wait is silent about the time until its turn.
	longWait = 2 * time.Second

	// longReturn is how long a wait that has failed stays for Redis, so that it
	// gives back what it will not use.
	longReturn = 2 * time.Second
)

// waiting is how wait waits.
type waiting struct {
	quotas  serve.Quotas
	opts    []fairlimit.Option
	timeout time.Duration // 0 for none
	permits int
	amounts fairlimit.Amounts // of further units
}

func wait(c *connection) *cobra.Command {
	w := waiting{amounts: fairlimit.Amounts{}}
	cmd := c.command("wait NAME [flags] -- COMMAND [ARG...]", "Run a command when its turn comes",
		func(cmd *cobra.Command, words []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(words) == 1 {
				return errors.New("want a name, and behind -- a command")
			}
			return nil
		},
		func(ctx context.Context, words []string) error { return w.run(ctx, c, words[0], words[1:]) })
	flags := cmd.Flags()
	flags.Func("quota", "`Q`, such as \"60/1m; tokens 9999/1m\"; else the stored", w.quotas.Add)
	defineGuard(flags, &w.opts)
	flags.Func("timeout", "refuse a turn that comes after this `duration`", func(text string) (err error) {
		w.timeout, err = serve.Duration(text) // 0 may be what is left of a time, and is not for ever
		return err
	})
	flags.IntVarP(&w.permits, "permits", "n", 1, "the `number` that the command takes")
	flags.Func("amounts", "`A` of further units, such as tokens=1200,points=3", func(text string) error {
		for _, word := range strings.Split(text, ",") {
			unit, number, _ := strings.Cut(word, "=")
			n, err := strconv.Atoi(number)
			if err != nil || unit == "" {
				return fmt.Errorf("%q: want <unit>=<number>, such as tokens=1200", word)
			}
			w.amounts[unit] = n
		}
		return nil
	})
	return cmd
}

func defineGuard(flags *pflag.FlagSet, opts *[]fairlimit.Option) {
	flags.Func("guard", "lengthen every Per by this `duration`; else the shortest Per/20, 250ms at most",
		func(text string) error {
			guard, err := quotatext.ParseDuration(text)
			*opts = append(*opts, fairlimit.WithGuard(guard))
			return err
		})
}

func (w *waiting) run(ctx context.Context, c *connection, name string, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return cannotRun(fmt.Errorf("nothing was consumed: %w", err))
	}
	opts := append(w.opts, fairlimit.WithPrefix(c.prefix),
		fairlimit.WithTrace(&fairlimit.Trace{Granted: func(_ int, wait time.Duration) {
			if wait > longWait { // what takes a moment leaves standard error to the command
				comes := quotatext.Duration(wait.Round(time.Second))
				tell(fmt.Errorf("%s: my turn comes in %s", printable(name), comes))
			}
		}}))
	q, err := w.quotas.Queue(c.rdb, name, opts...)
	if err != nil {
		return err
	}
	err = w.wait(ctx, q, name)
	switch {
	case err == nil: // its exit status, its terminal and all signals are its own
		return cannotRun(&os.PathError{Op: "run", Path: path, Err: syscall.Exec(path, command, os.Environ())})
	case !serve.Drain(c.rdb, longReturn) && !errors.Is(err, fairlimit.ErrUnreachable):
		return fmt.Errorf("%w (Redis did not answer: a turn that it grants may pass unused)", err)
	}
	return err
}

// cannotRun is for a command that cannot be run in its turn.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return failure{err, waitNotFound}
	}
	return failure{err, waitCannotRun}
}

// wait returns nil in this call's turn. It ends with a signal or the timeout.
func (w *waiting) wait(ctx context.Context, q *fairlimit.Queue, name string) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	bounded, cancel := serve.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.amounts[""] = w.permits
	_, err := q.Take(bounded, w.amounts)
	var signal signalled
	switch {
	case err == nil:
		return nil
	case errors.As(context.Cause(ctx), &signal):
		number, _ := signal.Signal.(syscall.Signal)
		return failure{err, waitSignalled + int(number)}
	case errors.As(err, new(*fairlimit.RefusedError)):
		text := strings.Replace(err.Error(), "ctx's deadline", fmt.Sprint("-timeout ", w.timeout), 1)
		return failure{errors.New(text), waitTooLate}
	case errors.Is(err, fairlimit.ErrNoQuota):
		return fmt.Errorf("%w: give one with -quota, or store one with fairlimit quota", err)
	}
	return err
}
