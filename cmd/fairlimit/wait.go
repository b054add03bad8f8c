package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/fairlimit/fairlimit"
)

func wait(flags *flag.FlagSet) action {
	var w waiting
	flags.Var(&w.quotas, "quota", "quota `Q`, such as 20/1s; else the stored quota holds")
	flags.Func("guard", "lengthen every Per by this `duration`; else Per/20 up to 50ms",
		w.setGuard)
	flags.Func("timeout", "refuse a turn at once that comes after this `duration`", w.setTimeout)
	flags.IntVar(&w.permits, "n", 1, "`number` of permits that the command takes; else 1")
	within := defineWithin(flags)
	return func(ctx context.Context, c *call) error {
		w.within = *within
		return c.runInTurn(ctx, &w)
	}
}

const (
	// longWait is how long wait is silent about the time until its turn.
	longWait = 2 * time.Second

	// longReturn is how long a wait that has failed stays for Redis, so that it
	// gives back what it will not use.
	longReturn = 2 * time.Second
)

// waiting is how wait waits.
type waiting struct {
	name    string
	quotas  quotaFlag
	guard   []fairlimit.Option // none without -guard
	timeout time.Duration
	within  time.Duration
	permits int
	account account
}

// quotaFlag may be given several times, each time with several quotas.
type quotaFlag []fairlimit.Quota

func (f *quotaFlag) String() string { return "" }

func (f *quotaFlag) Set(text string) error {
	quotas, err := parseQuotas(text)
	if err == nil && len(quotas) == 0 {
		return errors.New("no quota")
	}
	*f = append(*f, quotas...)
	return err
}

func (w *waiting) setGuard(text string) error {
	var guard durationFlag
	err := guard.Set(text)
	w.guard = []fairlimit.Option{fairlimit.WithGuard(time.Duration(guard))}
	return err
}

// setTimeout takes no 0: it may be what is left of a time, and is not for ever.
func (w *waiting) setTimeout(text string) error {
	err := (*durationFlag)(&w.timeout).Set(text)
	if err == nil && w.timeout <= 0 {
		return errors.New("want more than 0")
	}
	return err
}

func (c *call) runInTurn(ctx context.Context, w *waiting) error {
	path, err := exec.LookPath(c.behind[0])
	if err != nil {
		return cannotRun{fmt.Errorf("nothing was consumed: %w", err)}
	}
	q, err := c.queue(w)
	if err != nil {
		return err
	}
	w.name = c.words[0]
	if err := w.wait(ctx, q); err != nil {
		return err
	}
	return execute(path, c.behind)
}

// queue is the one to wait in.
func (c *call) queue(w *waiting) (*fairlimit.Queue, error) {
	opts := append(w.guard, fairlimit.WithPauseWithin(w.within),
		fairlimit.WithTrace(&fairlimit.Trace{Granted: c.tellLongWait}), fairlimit.WithEngine(w.account.build))
	if len(w.quotas) == 0 {
		return c.open(c.words[0], append(opts, fairlimit.WithStoredQuota())...)
	}
	rdb, err := c.client()
	if err != nil {
		return nil, err
	}
	for _, extra := range w.quotas[1:] {
		opts = append(opts, fairlimit.WithExtraQuota(extra))
	}
	return fairlimit.NewQueue(rdb, c.words[0], w.quotas[0], append(opts, fairlimit.WithPrefix(c.prefix))...)
}

// tellLongWait is for people who would wonder whether anything happens. What
// takes a moment leaves standard error to the command.
func (c *call) tellLongWait(_ int, wait time.Duration) {
	if wait > longWait {
		_, _ = fmt.Fprintf(os.Stderr, "fairlimit: %s: my turn comes in %s\n", printable(c.words[0]), brief(wait))
	}
}

// wait returns nil in this call's turn. If it fails, what Redis grants or has
// granted goes back first.
func (w *waiting) wait(ctx context.Context, q *fairlimit.Queue) error {
	err := w.inTime(ctx, q)
	if err != nil && !w.account.settle(longReturn) {
		return fmt.Errorf("%w (Redis did not answer: a turn that it grants may pass unused)", err)
	}
	return err
}

// inTime waits until the turn, a signal or the timeout.
func (w *waiting) inTime(ctx context.Context, q *fairlimit.Queue) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	bounded := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	err := q.WaitN(bounded, w.permits)
	var signal signalled
	var refused *fairlimit.RefusedError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &signal):
		return interrupted{err, signal}
	case errors.As(err, &refused):
		return tooLate{refused, w.name, w.timeout}
	case errors.Is(err, fairlimit.ErrNoQuota):
		return fmt.Errorf("%.100q: no quota: none is stored; give one with -quota, or store one with fairlimit quota",
			w.name)
	}
	return err
}
