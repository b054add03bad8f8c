package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/fairlimit/fairlimit"
)

func pause(flags *flag.FlagSet) action {
	var opts []fairlimit.Option
	defineWithin(flags, &opts)
	return func(ctx context.Context, c *call) error {
		d, err := positive(c.words[1])
		if err != nil {
			return misused("pause: %s: %v", fit(printable(c.words[1]), 40), err)
		}
		q, err := c.open(c.words[0], opts...)
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
		why := ""
		if status.Paused > d {
			why = ": the longest pause counts, and each lasts at least twice -within"
		}
		fmt.Printf("%s: paused for %s%s\n", printable(c.words[0]), brief(status.Paused), why)
		return nil
	}
}

// defineWithin is for what has to be the same for all users of a queue.
func defineWithin(flags *flag.FlagSet, opts *[]fairlimit.Option) {
	flags.Func("within", "the `duration` that callers give to WithPauseWithin; else 1s", func(text string) error {
		d, err := duration(text)
		*opts = append(*opts, fairlimit.WithPauseWithin(d))
		return err
	})
}
