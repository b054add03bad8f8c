package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

func ls(flags *flag.FlagSet) action {
	names := flags.Bool("names", false, "print only the names")
	return func(ctx context.Context, c *call) error {
		found, err := c.names(ctx)
		if err != nil {
			return err
		}
		if !*names {
			return c.list(ctx, found)
		}
		for _, name := range found {
			fmt.Printf("%s\n", printable(name))
		}
		return nil
	}
}

// line is one of the list.
type line struct {
	name  string
	cells [3]string
}

var header = line{"NAME", [3]string{"BACKLOG", "DELAY", "PAUSED"}}

// list prints a line for each name. A key that is no queue has a line as well,
// and makes the command fail once all are listed.
func (c *call) list(ctx context.Context, names []string) error {
	if len(names) == 0 {
		c.tellNone()
		return nil
	}
	lines, unreadable := []line{header}, 0
	for _, name := range names {
		status, err := c.statusOf(ctx, name)
		switch {
		case errors.Is(err, fairlimit.ErrState):
			unreadable++
			lines = append(lines, line{printable(name), [3]string{"?", "?", "?"}})
			continue
		case err != nil:
			return err
		}
		paused := "no"
		if status.Paused > 0 {
			paused = brief(status.Paused)
		}
		lines = append(lines, line{printable(name), [3]string{fmt.Sprint(status.Queued), brief(status.Delay), paused}})
	}
	c.printLines(lines)
	if unreadable > 0 {
		return fmt.Errorf("keys that hold no queue that can be read: %d; reset deletes them", unreadable)
	}
	return nil
}

// tellNone leaves standard output to lines of the list.
func (c *call) tellNone() {
	under := ""
	if c.prefix != "" {
		under = " under the prefix " + printable(c.prefix)
	}
	_, _ = fmt.Fprintf(os.Stderr, "fairlimit: no queues%s\n", under)
}

func (c *call) statusOf(ctx context.Context, name string) (fairlimit.Status, error) {
	q, err := c.open(name)
	if err != nil {
		return fairlimit.Status{}, err
	}
	return q.Status(ctx)
}

// printLines makes columns. On a terminal, names are cut to fit.
func (c *call) printLines(lines []line) {
	var widths [3]int
	longest := 0
	for _, l := range lines {
		longest = max(longest, columns(l.name))
		for i, cell := range l.cells {
			widths[i] = max(widths[i], columns(cell))
		}
	}
	if onTerminal() {
		longest = min(longest, width-widths[0]-widths[1]-widths[2]-3*2)
	}
	for _, l := range lines {
		name := l.name
		if onTerminal() {
			name = fit(name, longest)
		}
		fmt.Printf("%s%s  %*s  %*s  %*s\n", name, strings.Repeat(" ", max(0, longest-columns(name))),
			widths[0], l.cells[0], widths[1], l.cells[1], widths[2], l.cells[2])
	}
}

// names are those of all queues and of all stored quotas under the prefix, in
// order.
func (c *connection) names(ctx context.Context) ([]string, error) {
	rdb, err := c.client()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var mu sync.Mutex
	scan := func(ctx context.Context, node redis.UniversalClient) error {
		keys := node.Scan(ctx, 0, escaped(c.prefix)+"{*", 1000).Iterator()
		for keys.Next(ctx) {
			if name := nameOf(keys.Val(), c.prefix); name != "" {
				mu.Lock()
				found[name] = true
				mu.Unlock()
			}
		}
		return keys.Err()
	}
	if cluster, isOne := rdb.(*redis.ClusterClient); isOne {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, rdb)
	}
	return slices.Sorted(maps.Keys(found)), whereis.Of(rdb, err, false)
}

// nameOf is the name of the queue that a key belongs to, empty for another key.
func nameOf(key, prefix string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(key, prefix), ":quota")
	name, closed := strings.CutSuffix(inner, "}")
	if !closed {
		return ""
	}
	return strings.TrimPrefix(name, "{")
}

// escaped is a text as SCAN's pattern for it.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
