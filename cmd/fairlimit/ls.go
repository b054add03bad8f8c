package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/naming"
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

// list prints a line for each name. A key that is no queue has a line as well,
// and makes the command fail once all are listed.
func (c *call) list(ctx context.Context, names []string) error {
	if len(names) == 0 { // standard output is for lines of the list
		under := ""
		if c.prefix != "" {
			under = " under the prefix " + printable(c.prefix)
		}
		_, _ = fmt.Fprintf(os.Stderr, "fairlimit: no queues%s\n", under)
		return nil
	}
	unreadable := 0
	printRow("NAME", "BACKLOG", "DELAY", "PAUSED", "AVAILABLE")
	for _, name := range names {
		v, err := c.look(ctx, name)
		switch {
		case errors.Is(err, fairlimit.ErrState):
			unreadable++
			printRow(printable(name), "?", "?", "?", "?")
			continue
		case err != nil:
			return err
		}
		paused := "no"
		if v.state.Paused > 0 {
			paused = brief(v.state.Paused)
		}
		printRow(printable(name), strconv.FormatInt(v.Queued, 10), brief(v.state.Next), paused, v.available())
	}
	if unreadable > 0 {
		return fmt.Errorf("keys that cannot be read: %d; reset deletes a queue, quota -forget a stored quota", unreadable)
	}
	return nil
}

// available is what can be had at once, of calls and of each unit.
func (v view) available() string {
	text := "all"
	if !v.Idle {
		text = strconv.FormatInt(v.state.Available, 10)
	}
	for _, u := range v.Units {
		text += fmt.Sprintf(", %s %d", u.Name, u.Available)
	}
	return text
}

// printRow cuts the name and what is available on a terminal: a row then fits 80
// columns.
func printRow(name, backlog, delay, paused, available string) {
	const rest = 20
	const room = width - 8 - 11 - 11 - rest - 4*2
	if onTerminal() {
		name, available = fit(name, room), fit(available, rest)
	}
	gap := strings.Repeat(" ", max(0, room-columns(name)))
	fmt.Printf("%s%s  %8s  %11s  %11s  %s\n", name, gap, backlog, delay, paused, available)
}

// names are those of all queues and of all stored quotas under the prefix, those
// of flows as well, in order.
func (c *connection) names(ctx context.Context) ([]string, error) {
	rdb, err := c.client()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var mu sync.Mutex
	scan := func(ctx context.Context, node redis.UniversalClient) error {
		keys := node.Scan(ctx, 0, naming.Pattern(c.prefix)+"{*", 1000).Iterator()
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
	if err != nil && !errors.As(err, new(redis.Error)) {
		err = whereis.Of(rdb, fmt.Errorf("%w: %w", fairlimit.ErrUnreachable, err), false)
	}
	return slices.Sorted(maps.Keys(found)), err
}

// nameOf is the name of the queue that a key belongs to, empty for another key.
func nameOf(key, prefix string) string {
	inner := strings.TrimPrefix(key, prefix)
	if name, _, isLog := strings.Cut(inner, "}:flow:"); isLog {
		return strings.TrimPrefix(name, "{")
	}
	name, closed := strings.CutSuffix(strings.TrimSuffix(inner, ":quota"), "}")
	if !closed {
		return ""
	}
	return strings.TrimPrefix(name, "{")
}
