package main

import (
	"context"
	"flag"
	"time"

	"github.com/fairlimit/fairlimit"
)

var pauseCommand = command{
	name: "pause", args: "NAME DURATION", does: "let nobody go for so long, on any machine",
	more: `The longest of several pauses counts, and only reset ends one. It lasts for
twice -within at least.`,
	fewest: 2, most: 2,
	define: func(flags *flag.FlagSet) action {
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
			c.printf("%s: paused for %s\n", printable(c.words[0]), brief(status.Paused))
			return nil
		}
	},
}

// defineWithin is for what has to be the same for all users of a queue.
func defineWithin(flags *flag.FlagSet) *time.Duration {
	return flags.Duration("within", time.Second, "what callers gave to WithPauseWithin, else 1s")
}
