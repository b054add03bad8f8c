package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

func ls(c *connection) *cobra.Command {
	return c.command("ls", "List the queues", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		found, err := c.names(ctx)
		if err == nil && len(found) == 0 { // standard output is for lines of the list
			tell(fmt.Errorf("no queues under the prefix %s", printable(c.prefix)))
			return nil
		}
		if err != nil {
			return err
		}
		return c.list(ctx, found)
	})
}

// list prints a line for each name. A key that is no queue has a line as well,
// and makes the command fail once all are listed.
func (c *connection) list(ctx context.Context, names []string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	_, _ = fmt.Fprintln(w, "NAME\tBACKLOG\tDELAY\tPAUSED\tAVAILABLE")
	unreadable := 0
	for _, name := range names {
		q, err := c.look(ctx, name)
		row := rowOf(q)
		if errors.Is(err, fairlimit.ErrState) {
			unreadable++
			row = "?\t?\t?\t?"
		} else if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", printable(name), row)
	}
	if unreadable > 0 {
		return fmt.Errorf("keys that cannot be read: %d; reset deletes a queue, quota -forget its quota", unreadable)
	}
	return nil
}

func rowOf(q picture.Queue) string {
	if q.Requeued { // whoever waits asks again
		return "?\t?\tno\t?"
	}
	paused, available := "no", number(q.Available)
	if q.Paused > 0 {
		paused = brief(q.Paused)
	}
	for _, u := range q.Units {
		available += fmt.Sprintf(", %s %s", u.Name, number(u.Available))
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s", q.Queued, brief(q.Next), paused, available)
}

// keyForm is a key without its prefix: of a queue, or of its stored quota.
var keyForm = regexp.MustCompile(`(?s)^\{(.+?)\}(?::quota)?$`)

// names are those of all queues and of all stored quotas under the prefix, in
// order.
func (c *connection) names(ctx context.Context) (_ []string, err error) {
	found := map[string]bool{}
	var mu sync.Mutex
	scan := func(ctx context.Context, node redis.UniversalClient) error {
		keys := node.Scan(ctx, 0, naming.Pattern(c.prefix)+"{*", 1000).Iterator()
		for keys.Next(ctx) {
			if parts := keyForm.FindStringSubmatch(strings.TrimPrefix(keys.Val(), c.prefix)); parts != nil {
				mu.Lock()
				found[parts[1]] = true
				mu.Unlock()
			}
		}
		return keys.Err()
	}
	if cluster, isOne := c.rdb.(*redis.ClusterClient); isOne {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, c.rdb)
	}
	if err != nil && !errors.As(err, new(redis.Error)) {
		err = whereis.Of(c.rdb, fmt.Errorf("%w: %w", fairlimit.ErrUnreachable, err), false)
	}
	return slices.Sorted(maps.Keys(found)), err
}
