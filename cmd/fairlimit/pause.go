package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit"
)

func pause(flags *flag.FlagSet) action {
	within := defineWithin(flags)
	return func(ctx context.Context, c *call) error {
		d, err := duration("pause", c.words[1])
		if err != nil {
			return err
		}
		q, err := c.open(c.words[0], fairlimit.WithPauseWithin(*within))
		if err != nil {
			return err
		}
		if err := q.Pause(ctx, d); err != nil {
			return err
		}
		status, err := q.Status(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: paused for %s%s\n",
			printable(c.words[0]), brief(status.Paused), whyLonger(d, *within, status.Paused))
		return nil
	}
}

// whyLonger says why a queue is paused for longer than was asked, and nothing
// if it is not. Some time has passed since.
func whyLonger(asked, within, paused time.Duration) string {
	switch shortest := 2 * within; {
	case paused > max(asked, shortest):
		return ": it was paused for longer before"
	case asked < shortest:
		return ": a pause lasts at least twice -within"
	}
	return ""
}

// defineWithin is for what has to be the same for all users of a queue.
func defineWithin(flags *flag.FlagSet) *time.Duration {
	within := time.Second
	flags.Var((*durationFlag)(&within), "within", "the `duration` that callers give to WithPauseWithin; else 1s")
	return &within
}
