package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
)

func pause(c *connection) *cobra.Command {
	return c.command("pause NAME DURATION", "Let nobody go for a while", cobra.ExactArgs(2),
		func(ctx context.Context, words []string) error {
			d, err := serve.Duration(words[1])
			if err != nil {
				return misused("pause: %s: %v", printable(words[1]), err)
			}
			q, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return q.Pause(ctx, d) })
			if err == nil && q.Paused > float64(d.Milliseconds()) {
				fmt.Printf("longer than %v: a pause lasts at least 2s, and the longest counts\n", d)
			}
			return err
		})
}

func resume(c *connection) *cobra.Command {
	return c.steers("resume NAME", "End a pause", (*fairlimit.Queue).Resume)
}

func requeue(c *connection) *cobra.Command {
	return c.steers("requeue NAME", "Let all who wait ask again", (*fairlimit.Queue).Requeue)
}

// steers is a command that calls a method of the queue.
func (c *connection) steers(use, short string, do func(*fairlimit.Queue, context.Context) error) *cobra.Command {
	return c.command(use, short, cobra.ExactArgs(1), func(ctx context.Context, words []string) error {
		_, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return do(q, ctx) })
		return err
	})
}

func reset(c *connection) *cobra.Command {
	var yes bool
	cmd := c.command("reset NAME", "Forget all turns, and any pause", cobra.ExactArgs(1),
		func(ctx context.Context, words []string) error {
			question := "reset " + printable(words[0]) + " at " + c.at + "? The upstream may see more than the quota."
			if !yes && !confirmed(question) {
				return errors.New("nothing was reset: give -yes to go without the question")
			}
			_, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return q.Reset(ctx) })
			return err
		})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmed is whether a person says y.
func confirmed(question string) bool {
	fmt.Println(question + " [y/N]")
	var answer string
	_, _ = fmt.Scanln(&answer)
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

func quota(c *connection) *cobra.Command {
	var forget bool
	cmd := c.command("quota NAME [QUOTA...]", "Store quotas, or show or forget them", cobra.MinimumNArgs(1),
		func(ctx context.Context, words []string) (err error) {
			name, text := words[0], strings.Join(words[1:], " ")
			switch {
			case forget && text != "":
				return misused("quota: -forget goes without quotas")
			case forget:
				_, err = c.steer(ctx, name, func(q *fairlimit.Queue) error { return q.ForgetQuotas(ctx) })
				return err
			case text == "":
				return show(c.look(ctx, name))
			}
			return c.store(ctx, name, text)
		})
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the stored quotas")
	return cmd
}

func (c *connection) store(ctx context.Context, name, text string) error {
	var quotas serve.Quotas
	if err := quotas.Add(text); err != nil {
		return misused("quota: %v", err)
	}
	store := func(q *fairlimit.Queue) error { return quotas.Store(ctx, q) }
	_, err := c.steer(ctx, name, store, quotas.UnitOptions()...)
	if err == nil {
		fmt.Println("only limiters made WithStoredQuota, serve, and wait without -quota obey them")
	}
	return err
}

// steer does something to the queue, and shows how it stands then.
func (c *connection) steer(
	ctx context.Context, name string, do func(*fairlimit.Queue) error, opts ...fairlimit.Option,
) (picture.Queue, error) {
	q, err := c.open(name, opts...)
	if err == nil {
		err = do(q)
	}
	if err != nil {
		return picture.Queue{}, err
	}
	now, err := c.look(ctx, name)
	return now, show(now, err)
}
