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
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
	"github.com/fairlimit/fairlimit/fair"
)

func pause(flags *flag.FlagSet) action {
	var opts []fairlimit.Option
	defineWithin(flags, &opts)
	flow := defineFlow(flags)
	return func(ctx context.Context, c *call) error {
		d, err := positive(c.words[1])
		if err != nil {
			return misused("pause: %s: %v", fit(printable(c.words[1]), 40), err)
		}
		q, err := c.open(c.words[0], opts...)
		if err != nil {
			return err
		}
		if *flow != "" {
			return c.steerFlow(ctx, q, *flow, func(q *fairlimit.Queue) error { return q.Pause(ctx, d) })
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

// steerFlow does something to a flow, and tells how it stands then.
func (c *call) steerFlow(ctx context.Context, q *fairlimit.Queue, id string, do func(*fairlimit.Queue) error) error {
	f, err := q.Flow(id, 1)
	if err != nil {
		return err
	}
	if err := do(f); err != nil {
		return err
	}
	state, err := c.inspect(ctx, c.words[0], fair.WithCeilings(id))
	if err != nil {
		return err
	}
	var l lines
	l.addCeilings(state.Ceilings)
	fmt.Printf("%s\n%s", fit(printable(c.words[0]), width), l.String())
	return nil
}

func reset(flags *flag.FlagSet) action {
	yes := flags.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *call) error {
		q, err := c.open(c.words[0])
		if err != nil {
			return err
		}
		if err := c.tellWhatGoes(ctx); err != nil {
			return err
		}
		if !*yes && !c.confirmed() {
			return errors.New("nothing was reset")
		}
		if err := q.Reset(ctx); err != nil {
			return err
		}
		fmt.Printf("reset\n")
		return nil
	}
}

func (c *call) tellWhatGoes(ctx context.Context) error {
	v, err := c.look(ctx, c.words[0])
	if err != nil && !errors.Is(err, fairlimit.ErrState) {
		return err
	}
	fmt.Printf("%s\n  at %s\n", fit(printable(c.words[0]), width), fit(c.at, width-5))
	if err != nil {
		fmt.Printf("  cannot be read: reset deletes the queue, and leaves stored quotas\n")
		return nil
	}
	fmt.Printf("  frees %s granted ahead; the next slot is in %s\n", permits(v.Queued), brief(v.state.Next))
	for _, u := range v.Units {
		fmt.Printf("  frees %d %s\n", u.Queued, fit(u.Name, 40))
	}
	if v.state.Paused > 0 {
		fmt.Printf("  ends a pause of %s more\n", brief(v.state.Paused))
	}
	fmt.Printf("  those who sleep line up again; the upstream may see more than the quota\n")
	return nil
}

// confirmed reads a line. Its end alone is a no.
func (c *call) confirmed() bool {
	fmt.Printf("reset? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
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
		switch {
		case *forget && !quotas.None():
			return misused("quota: -forget goes without quotas")
		case *flow != "":
			if len(quotas.UnitOptions()) > 0 {
				return misused("quota: a ceiling counts calls only")
			}
			return c.flowQuota(ctx, *flow, quotas.Calls(), *forget)
		case *forget:
			return c.forgetQuotas(ctx)
		case !quotas.None():
			return c.storeQuotas(ctx, quotas)
		}
		return c.tellQuotas(ctx)
	}
}

// flowQuota stores the quota of a flow, forgets it, or only shows it.
func (c *call) flowQuota(ctx context.Context, id string, quotas []fairlimit.Quota, forget bool) error {
	q, err := c.open(c.words[0])
	if err != nil {
		return err
	}
	return c.steerFlow(ctx, q, id, func(q *fairlimit.Queue) error {
		switch {
		case forget:
			return q.ForgetQuotas(ctx)
		case len(quotas) > 0:
			return q.SetQuotas(ctx, quotas...)
		}
		return nil
	})
}

func (c *call) tellQuotas(ctx context.Context) error {
	v, err := c.look(ctx, c.words[0])
	if err != nil {
		return err
	}
	var l lines
	v.addQuotas(&l)
	fmt.Printf("%s\n%s", fit(printable(v.Name), width), l.String())
	return nil
}

func (c *call) storeQuotas(ctx context.Context, quotas serve.Quotas) error {
	q, before, err := c.stored(ctx, quotas.UnitOptions()...)
	if err != nil && !errors.Is(err, fairlimit.ErrState) { // a text that is no quota is written over
		return err
	}
	if err := q.SetQuotas(ctx, quotas.Calls()...); err != nil {
		return err
	}
	if err := c.tellQuotas(ctx); err != nil {
		return err
	}
	fmt.Printf("only limiters made WithStoredQuota obey them, serve, and wait without -quota\n")
	if others := picture.Texts(picture.Quotas(before.Windows)); !before.Reads && len(others) > 0 {
		fmt.Printf("the last caller does not read stored quotas: it goes by %s, guard included\n",
			strings.Join(others, " "))
	}
	return nil
}

func (c *call) forgetQuotas(ctx context.Context) error {
	q, before, err := c.stored(ctx)
	forgotten := "forgot " + strings.Join(strings.Fields(before.Text), " ")
	switch {
	case errors.Is(err, fairlimit.ErrState):
		forgotten = "forgot what was stored, which cannot be read"
	case err != nil:
		return err
	case len(before.Quotas) == 0:
		forgotten = "there was no quota to forget"
	}
	if err := q.ForgetQuotas(ctx); err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", printable(c.words[0]), forgotten)
	return nil
}

// stored is the queue, with its state before it changes.
func (c *call) stored(ctx context.Context, opts ...fairlimit.Option) (*fairlimit.Queue, fair.State, error) {
	q, err := c.open(c.words[0], opts...)
	if err != nil {
		return nil, fair.State{}, err
	}
	before, err := c.inspect(ctx, c.words[0])
	return q, before, err
}
