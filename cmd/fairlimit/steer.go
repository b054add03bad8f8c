package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
	"github.com/fairlimit/fairlimit/fair"
)

func pause(flags *flag.FlagSet) action {
	var opts []fairlimit.Option
	defineWithin(flags, &opts)
	flow := defineFlow(flags)
	return func(ctx context.Context, c *call) error {
		d, err := serve.Duration(c.words[1])
		if err != nil {
			return misused("pause: %s: %v", fit(printable(c.words[1]), 40), err)
		}
		return c.steer(ctx, *flow, func(q *fairlimit.Queue) error { return q.Pause(ctx, d) }, opts...)
	}
}

func quota(flags *flag.FlagSet) action {
	forget := flags.Bool("forget", false, "forget the stored quotas")
	flow := defineFlow(flags)
	return func(ctx context.Context, c *call) error {
		var quotas serve.Quotas
		if len(c.words) > 1 {
			if err := quotas.Add(strings.Join(c.words[1:], " ")); err != nil {
				return misused("quota: %v", err)
			}
		}
		store := func(q *fairlimit.Queue) error { return quotas.Store(ctx, q) }
		drop := func(q *fairlimit.Queue) error { return q.ForgetQuotas(ctx) }
		switch {
		case *forget && len(quotas.Calls) > 0:
			return misused("quota: -forget goes without quotas")
		case *flow != "" && len(quotas.Units) > 0:
			return misused("quota: a ceiling counts calls only")
		case *forget && *flow == "":
			return c.end(ctx, "what is stored is no quota", drop, "no quota is stored any more")
		case *forget:
			return c.steer(ctx, *flow, drop)
		case len(quotas.Calls) == 0:
			return c.show(ctx, *flow)
		}
		err := c.steer(ctx, *flow, store, quotas.UnitOptions()...)
		if err == nil && *flow == "" {
			fmt.Println("only limiters made WithStoredQuota, serve, and wait without -quota obey them")
		}
		return err
	}
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

// open is the queue that the first word names, or one of its flows.
func (c *call) open(flow string, opts ...fairlimit.Option) (*fairlimit.Queue, error) {
	q, err := fairlimit.Open(c.rdb, c.words[0], append(opts, fairlimit.WithPrefix(c.prefix))...)
	if err != nil || flow == "" {
		return q, err
	}
	return q.Flow(flow, 1)
}

// steer does something to the queue, or to one of its flows, and shows how it
// stands then.
func (c *call) steer(
	ctx context.Context, flow string, do func(*fairlimit.Queue) error, opts ...fairlimit.Option,
) error {
	q, err := c.open(flow, opts...)
	if err == nil {
		err = do(q)
	}
	if err == nil {
		err = c.show(ctx, flow)
	}
	return err
}

// show is what look shows of the queue, or of one flow, as far as it can be read.
func (c *call) show(ctx context.Context, flow string) error {
	var opts []fair.InspectOption
	if flow != "" {
		opts = append(opts, fair.WithCeilings(flow))
	}
	q, err := c.look(ctx, c.words[0], opts...)
	switch l := titled(c.words[0]); {
	case isReadable(q) && flow == "":
		fmt.Print(table(q, false))
	case isReadable(q):
		l.addCeilings(q.Ceilings)
		fmt.Print(l)
	case errors.Is(err, fairlimit.ErrState):
		fmt.Print(l)
	}
	return err
}

// end does what ends something of the queue, which it shows before, be it
// readable or not.
func (c *call) end(ctx context.Context, unreadable string, do func(*fairlimit.Queue) error, done string) error {
	q, err := c.open("")
	if err == nil {
		err = c.show(ctx, "")
	}
	if errors.Is(err, fairlimit.ErrState) {
		var l lines
		l.add("unreadable", unreadable)
		fmt.Print(&l)
		err = nil
	}
	if err == nil {
		err = do(q)
	}
	if err == nil {
		fmt.Println(done)
	}
	return err
}

func reset(flags *flag.FlagSet) action {
	yes := flags.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *call) error {
		return c.end(ctx, "reset deletes the queue, and leaves stored quotas", func(q *fairlimit.Queue) error {
			fmt.Printf("at %s\n", fit(c.at, width-3))
			fmt.Println("frees the backlog and ends a pause; the upstream may see more than the quota")
			if !*yes && !confirmed() {
				return errors.New("nothing was reset; -yes does not ask")
			}
			return q.Reset(ctx)
		}, "reset")
	}
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
