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
	for _, line := range append([]string{fit(printable(v.name), width)}, v.quotaLines()...) {
		fmt.Printf("%s\n", line)
	}
	return nil
}

func (c *call) storeQuotas(ctx context.Context, quotas []fairlimit.Quota) error {
	q, err := c.open(c.words[0])
	if err != nil {
		return err
	}
	before, err := fair.Inspect(ctx, c.rdb, c.words[0], fair.WithPrefix(c.prefix))
	if err != nil && !errors.Is(err, fairlimit.ErrState) { // a text that is no quota is written over
		return err
	}
	if err := q.SetQuotas(ctx, quotas...); err != nil {
		return err
	}
	if err := c.tellQuotas(ctx); err != nil {
		return err
	}
	if others := windowsOf(before); !before.Reads && len(others) > 0 {
		fmt.Printf("the last caller does not read stored quotas: it goes by %s, guard included\n", quotasText(others))
	}
	return nil
}

func (c *call) forgetQuotas(ctx context.Context) error {
	q, err := c.open(c.words[0])
	if err != nil {
		return err
	}
	forgotten, err := storedQuotas(ctx, q)
	if err != nil {
		return err
	}
	if err := q.ForgetQuotas(ctx); err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", printable(c.words[0]), forgotten)
	return nil
}

// storedQuotas says what is there to be forgotten.
func storedQuotas(ctx context.Context, q *fairlimit.Queue) (string, error) {
	quotas, stored, err := q.Quotas(ctx)
	switch {
	case errors.Is(err, fairlimit.ErrState):
		return "forgot a text that was no quota", nil
	case err != nil:
		return "", err
	case !stored:
		return "there was no quota to forget", nil
	}
	return "forgot " + quotasText(quotas), nil
}

// quotasText is what parseQuotas reads.
func quotasText(quotas []fairlimit.Quota) string {
	words := make([]string, len(quotas))
	for i, q := range quotas {
		words[i] = q.String()
	}
	return strings.Join(words, " ")
}
