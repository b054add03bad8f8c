package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

func look(c *connection) *cobra.Command {
	var asJSON bool
	cmd := c.command("look NAME", "Show the state of a queue", cobra.ExactArgs(1),
		func(ctx context.Context, words []string) error {
			q, err := c.look(ctx, words[0])
			if asJSON && isReadable(q) {
				return cmp.Or(json.NewEncoder(os.Stdout).Encode(q), err)
			}
			return show(q, err)
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (c *connection) open(name string, opts ...fairlimit.Option) (*fairlimit.Queue, error) {
	return fairlimit.Open(c.rdb, name, append(opts, fairlimit.WithPrefix(c.prefix))...)
}

// look fails and is readable if only the stored text is wrong: it is no quota.
func (c *connection) look(ctx context.Context, name string) (picture.Queue, error) {
	q, err := c.open(name, fairlimit.WithStoredQuota())
	if err != nil {
		return picture.Queue{}, err
	}
	return picture.Source{Redis: c.rdb, Prefix: c.prefix, Name: name, Queue: q}.Look(ctx)
}

func isReadable(q picture.Queue) bool { return q.At > 0 }

// show prints a queue as far as it can be read.
func show(q picture.Queue, err error) error {
	if isReadable(q) {
		fmt.Print(table(q))
	}
	return err
}

func table(q picture.Queue) string {
	var text strings.Builder
	text.WriteString(printable(q.Name) + "\n")
	row := func(word, what string) { fmt.Fprintf(&text, "  %-9s %s\n", word, what) }
	switch {
	case q.Requeued:
		row("backlog", "not known yet: whoever waits asks again within a second")
		q.Next, q.Available, q.Units = 0, nil, nil
	case q.Idle:
		row("idle", "Redis knows of nobody who waits, and of nothing that still counts")
	case q.Queued == 0:
		row("backlog", "0")
	default:
		row("backlog", fmt.Sprintf("%d, the last %s", q.Queued, comes(q, q.Tail)))
	}
	if !q.Idle && q.Available != nil {
		row("next slot", comes(q, q.Next))
		row("available", number(q.Available)+" at once")
	} else if q.Next > 0 {
		row("next slot", "no sooner than "+comes(q, q.Next)+": no stored quota says more")
	}
	if q.Paused > 0 {
		row("paused", fmt.Sprintf("for %s more, until %s", brief(q.Paused), clock(q, q.Paused)))
	} else {
		row("paused", "no")
	}
	for _, f := range q.Flows {
		row("flow", fmt.Sprintf("%s: weight %d, %d ahead", printable(f.ID), f.Weight, f.Ahead))
	}
	for _, quota := range q.Quotas {
		row("quota", quota)
	}
	if !q.Stored {
		row("quota", "none is stored: those of the callers hold")
	}
	for _, u := range q.Units {
		row("unit", fmt.Sprintf("%s %s: backlog %d, available %s",
			u.Name, strings.Join(u.Quotas, " "), u.Queued, number(u.Available)))
	}
	for _, note := range q.Notes {
		row("note", note)
	}
	return text.String()
}

// comes says when something comes that is so many milliseconds ahead.
func comes(q picture.Queue, ms float64) string {
	if ms <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %s, at %s", brief(ms), clock(q, ms))
}

// clock is the local time then.
func clock(q picture.Queue, ms float64) string {
	return time.UnixMilli(q.At + int64(ms)).Format(time.DateTime)
}

// brief is a duration of milliseconds as a person reads it.
func brief(ms float64) string {
	unit, d := time.Second, time.Duration(ms*1e6)
	if d < time.Second {
		unit = time.Millisecond
	} else if d < time.Minute {
		unit = 10 * time.Millisecond
	}
	return quotatext.Duration(d.Round(unit))
}

// number is one that may be unknown.
func number(n *int) string {
	if n == nil {
		return "unknown"
	}
	return strconv.Itoa(*n)
}

// printable is a name as it can be shown on any terminal: one that could be
// taken for several words, or that moves the cursor, is quoted as Go quotes.
func printable(name string) string {
	odd := func(r rune) bool { return r == unicode.ReplacementChar || r == '"' || r == ' ' || !unicode.IsPrint(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}
