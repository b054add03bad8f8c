package main

import (
	"errors"
	"flag"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// defineWithin is for what has to be the same for all users of a queue.
func defineWithin(flags *flag.FlagSet, opts *[]fairlimit.Option) {
	const usage = "the `duration` that callers give to WithPauseWithin; else 1s"
	defineDuration(flags, "within", usage, opts, fairlimit.WithPauseWithin)
}

func defineGuard(flags *flag.FlagSet, opts *[]fairlimit.Option) {
	const usage = "lengthen every Per by this `duration`; else Per/20 up to 50ms"
	defineDuration(flags, "guard", usage, opts, fairlimit.WithGuard)
}

// defineDuration is for a flag that is an option.
func defineDuration(
	flags *flag.FlagSet, name, usage string, opts *[]fairlimit.Option, option func(time.Duration) fairlimit.Option,
) {
	flags.Func(name, usage, func(text string) error {
		d, err := quotatext.ParseDuration(text)
		*opts = append(*opts, option(d))
		return err
	})
}

// defineFlow is for what can be done to one flow alone. An empty id, as of a
// variable that is not set, must not stand for the whole queue.
func defineFlow(flags *flag.FlagSet) *string {
	id := new(string)
	flags.Func("flow", "only the flow of this `ID`", func(text string) error {
		if *id = text; text == "" {
			return errors.New("want an id")
		}
		return nil
	})
	return id
}
