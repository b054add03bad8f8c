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
	return &cobra.Command{
		Use: "pause NAME DURATION", Short: "Let nobody go for a while, on any machine",
		Args: named("DURATION"), ValidArgsFunction: c.complete,
		Long: `Pause calls Pause of a fairlimit.Queue, and shows the queue afterwards. The
longest of several pauses counts; resume ends it. All hear of it within a
second. So whoever is due within that second may still go, and a pause lasts at
least two seconds.`,
		RunE: c.runs(func(cmd *cobra.Command, words []string) error {
			d, err := serve.Duration(words[1])
			if err != nil {
				return misused("pause: %s: %v", fit(printable(words[1]), 40), err)
			}
			q, err := c.steer(cmd.Context(), words[0], func(q *fairlimit.Queue) error { return q.Pause(cmd.Context(), d) })
			if err == nil && q.Paused > float64(d.Milliseconds()) {
				fmt.Printf("longer than %v: a pause lasts at least 2s, and the longest counts\n", d)
			}
			return err
		}),
	}
}

func resume(c *connection) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "End a pause", Args: named(), ValidArgsFunction: c.complete,
		Long: "Resume ends a pause: all slots come sooner, in the same order.",
		RunE: c.runs(func(cmd *cobra.Command, words []string) error {
			_, err := c.steer(cmd.Context(), words[0],
				func(q *fairlimit.Queue) error { return serve.Resume(cmd.Context(), q) })
			return err
		}),
	}
}

func requeue(c *connection) *cobra.Command {
	return &cobra.Command{
		Use: "requeue NAME", Short: "Let all who wait line up again", Args: named(), ValidArgsFunction: c.complete,
		Long: `Requeue makes the turns void that lie ahead. Whoever waits asks again, within a
second and in order. What has gone stays counted, so no quota is exceeded. It
is for turns whose process was killed: they would pass unused. Whoever is due
within a second still goes.`,
		RunE: c.runs(func(cmd *cobra.Command, words []string) error {
			_, err := c.steer(cmd.Context(), words[0],
				func(q *fairlimit.Queue) error { return serve.Requeue(cmd.Context(), q) })
			return err
		}),
	}
}

func quota(c *connection) *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use: "quota NAME [QUOTA...]", Short: "Show the quotas, or store others", ValidArgsFunction: c.complete,
		Long: `Without a quota, the queue is shown. Otherwise the quotas are stored, and
whoever waits lines up again. A QUOTA is 20/1s, or 100/2m burst 10. Several of
them all hold. Those of units follow a semicolon: '60/1m; tokens 20000/1m'.

A stored quota takes the place of their own in limiters made WithStoredQuota,
and in no others. It also holds for serve, and for wait without -quota.`,
		Args: func(cmd *cobra.Command, words []string) error { return named()(cmd, words[:min(1, len(words))]) },
		RunE: c.runs(func(cmd *cobra.Command, words []string) error {
			var quotas serve.Quotas
			ctx, name := cmd.Context(), words[0]
			if len(words) > 1 {
				if err := quotas.Add(strings.Join(words[1:], " ")); err != nil {
					return misused("quota: %v", err)
				}
			}
			switch {
			case forget && len(quotas.Calls) > 0:
				return misused("quota: -forget goes without quotas")
			case forget:
				return c.end(ctx, name, "what is stored is no quota", "no quota is stored any more",
					func(q *fairlimit.Queue) error { return q.ForgetQuotas(ctx) })
			case len(quotas.Calls) == 0:
				_, err := c.show(ctx, name)
				return err
			}
			_, err := c.steer(ctx, name, func(q *fairlimit.Queue) error { return quotas.Store(ctx, q) }, quotas.UnitOptions()...)
			if err == nil {
				fmt.Println("only limiters made WithStoredQuota, serve, and wait without -quota obey them")
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the stored quotas")
	return cmd
}

func reset(c *connection) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "reset NAME", Short: "Forget all turns, and any pause", Args: named(), ValidArgsFunction: c.complete,
		Long: `Reset shows the queue, and then forgets it: what has gone as well, so the
upstream may see more than the quota. Whoever waits lines up again. Stored
quotas stay. Without -yes, it asks for a y on standard input.`,
		RunE: c.runs(func(cmd *cobra.Command, words []string) error {
			const unreadable = "reset deletes the queue, and leaves stored quotas"
			return c.end(cmd.Context(), words[0], unreadable, "reset", func(q *fairlimit.Queue) error {
				fmt.Printf("at %s\n", fit(c.at, width-3))
				fmt.Println("frees the backlog and ends a pause; the upstream may see more than the quota")
				if !yes && !confirmed() {
					return errors.New("nothing was reset; -yes does not ask")
				}
				return q.Reset(cmd.Context())
			})
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
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
