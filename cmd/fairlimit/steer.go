package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
)

func pause(c *connection) *cobra.Command {
	return c.command("pause NAME DURATION", "Let nobody go for a while", func(ctx context.Context, words []string) error {
		d, err := serve.Duration(words[1])
		if err != nil {
			return misused("pause: %s: %v", fit(printable(words[1]), 40), err)
		}
		q, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return q.Pause(ctx, d) })
		if err == nil && q.Paused > float64(d.Milliseconds()) {
			fmt.Printf("longer than %v: a pause lasts at least 2s, and the longest counts\n", d)
		}
		return err
	})
}

func resume(c *connection) *cobra.Command {
	return c.command("resume NAME", "End a pause", func(ctx context.Context, words []string) error {
		_, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return q.Resume(ctx) })
		return err
	})
}

func requeue(c *connection) *cobra.Command {
	return c.command("requeue NAME", "Let all who wait ask again", func(ctx context.Context, words []string) error {
		_, err := c.steer(ctx, words[0], func(q *fairlimit.Queue) error { return q.Requeue(ctx) })
		return err
	})
}

func reset(c *connection) *cobra.Command {
	var yes bool
	cmd := c.command("reset NAME", "Forget all turns, and any pause", func(ctx context.Context, words []string) error {
		const unreadable = "reset deletes the queue, and leaves stored quotas"
		return c.end(ctx, words[0], unreadable, "reset", func(q *fairlimit.Queue) error {
			fmt.Printf("at %s\n", fit(c.at, width-3))
			fmt.Println("frees the backlog and ends a pause; the upstream may see more than the quota")
			if !yes && !confirmed() {
				return errors.New("nothing was reset; -yes does not ask")
			}
			return q.Reset(ctx)
		})
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func quota(c *connection) *cobra.Command {
	var forget bool
	cmd := c.command("quota NAME [QUOTA...]", "Show the quotas, or store others",
		func(ctx context.Context, words []string) error {
			switch {
			case forget && len(words) > 1:
				return misused("quota: -forget goes without quotas")
			case forget:
				return c.end(ctx, words[0], "what is stored is no quota", "no quota is stored any more",
					func(q *fairlimit.Queue) error { return q.ForgetQuotas(ctx) })
			case len(words) == 1:
				_, err := c.show(ctx, words[0])
				return err
			}
			return c.store(ctx, words[0], strings.Join(words[1:], " "))
		})
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the stored quotas")
	return cmd
}

func (c *connection) store(ctx context.Context, name, text string) error {
	var quotas serve.Quotas
	if err := quotas.Add(text); err != nil {
		return misused("quota: %v", err)
	}
	_, err := c.steer(ctx, name, func(q *fairlimit.Queue) error { return quotas.Store(ctx, q) }, quotas.UnitOptions()...)
	if err == nil {
		fmt.Println("only limiters made WithStoredQuota, serve, and wait without -quota obey them")
	}
	return err
}

// confirmed reads a line. Its end alone is a no.
func confirmed() bool {
	fmt.Print("reset? [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		fmt.Println()
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// steer does something to the queue, and shows how it stands then.
func (c *connection) steer(
	ctx context.Context, name string, do func(*fairlimit.Queue) error, opts ...fairlimit.Option,
) (picture.Queue, error) {
	q, err := fairlimit.Open(c.rdb, name, append(opts, fairlimit.WithPrefix(c.prefix))...)
	if err == nil {
		err = do(q)
	}
	if err != nil {
		return picture.Queue{}, err
	}
	return c.show(ctx, name)
}

// show is what look shows of the queue, as far as it can be read.
func (c *connection) show(ctx context.Context, name string) (picture.Queue, error) {
	q, err := c.look(ctx, name)
	if isReadable(q) {
		fmt.Print(table(q))
	} else if errors.Is(err, fairlimit.ErrState) {
		fmt.Print(titled(name))
	}
	return q, err
}

// end does what ends something of the queue, which it shows before, be it
// readable or not.
func (c *connection) end(
	ctx context.Context, name, unreadable, done string, do func(*fairlimit.Queue) error,
) error {
	_, err := c.show(ctx, name)
	if errors.Is(err, fairlimit.ErrState) {
		var l lines
		l.add("unreadable", unreadable)
		fmt.Print(&l)
		err = nil
	}
	if err != nil {
		return err
	}
	q, err := fairlimit.Open(c.rdb, name, fairlimit.WithPrefix(c.prefix))
	if err == nil {
		err = do(q)
	}
	if err == nil {
		fmt.Println(done)
	}
	return err
}
