package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

func quota(flags *flag.FlagSet) action {
	forget := flags.Bool("forget", false, "forget the stored quotas")
	return func(ctx context.Context, c *call) error {
		quotas, err := parseQuotas(strings.Join(c.words[1:], " "))
		switch {
		case err != nil:
			return misused("quota: %v", err)
		case *forget && len(quotas) > 0:
			return misused("quota: -forget goes without quotas")
		case *forget:
			return c.forgetQuotas(ctx)
		case len(quotas) > 0:
			return c.storeQuotas(ctx, quotas)
		}
		return c.tellQuotas(ctx)
	}
}

// parseQuotas reads any number of them.
func parseQuotas(text string) ([]fairlimit.Quota, error) {
	read, err := quotatext.Parse(text)
	quotas := make([]fairlimit.Quota, len(read))
	for i, q := range read {
		quotas[i] = fairlimit.Quota(q)
	}
	return quotas, err
}

func (c *call) tellQuotas(ctx context.Context) error {
	v, err := c.look(ctx, c.words[0])
	if err != nil {
		return err
	}
	t := table{fit(printable(v.Name), width)}
	v.addQuotas(&t)
	fmt.Println(strings.Join(t, "\n"))
	return nil
}

func (c *call) storeQuotas(ctx context.Context, quotas []fairlimit.Quota) error {
	q, before, err := c.stored(ctx)
	if err != nil && !errors.Is(err, fairlimit.ErrState) { // a text that is no quota is written over
		return err
	}
	if err := q.SetQuotas(ctx, quotas...); err != nil {
		return err
	}
	if err := c.tellQuotas(ctx); err != nil {
		return err
	}
	if others := texts(windowsOf(before)); !before.Reads && len(others) > 0 {
		fmt.Printf("the last caller does not read stored quotas: it goes by %s, guard included\n",
			strings.Join(others, " "))
	}
	return nil
}

func (c *call) forgetQuotas(ctx context.Context) error {
	q, before, err := c.stored(ctx)
	forgotten := "forgot " + strings.Join(texts(before.Quotas), " ")
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
func (c *call) stored(ctx context.Context) (*fairlimit.Queue, fair.State, error) {
	q, err := c.open(c.words[0])
	if err != nil {
		return nil, fair.State{}, err
	}
	before, err := c.inspect(ctx, c.words[0])
	return q, before, err
}
