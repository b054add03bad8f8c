package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
)

func look(c *connection) *cobra.Command {
	var watch, asJSON bool
	cmd := c.command("look NAME", "Show the state of a queue", func(ctx context.Context, words []string) error {
		drawn := "" // what the next view takes the place of
		show := func() error {
			q, err := c.look(ctx, words[0])
			before := strings.Count(drawn, "\n")
			switch drawn = ""; {
			case !isReadable(q):
				return err
			case asJSON:
				return cmp.Or(json.NewEncoder(os.Stdout).Encode(q), err)
			case watch && !onTerminal():
				fmt.Println(logLine(q, time.Now()))
				return err
			case before > 0:
				fmt.Printf("\x1b[%dA\x1b[J", before) // up, and clear what is below
			}
			drawn = table(q)
			if watch && !q.Idle {
				drawn += q.Text()
			}
			fmt.Print(drawn)
			return err
		}
		if err := show(); err != nil || !watch {
			return err
		}
		return everySecond(ctx, show)
	})
	cmd.Flags().BoolVar(&watch, "watch", false, "show it every second, until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// everySecond shows until it fails, or until a signal ends it, which is no
// error. If Redis is not there, that may pass.
func everySecond(ctx context.Context, show func() error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	for tick := time.Tick(time.Second); ; {
		select {
		case <-tick:
		case <-ctx.Done():
			return nil
		}
		if err := show(); isUnreachable(err) {
			tell(err)
		} else if err != nil {
			return err
		}
	}
}

// onTerminal reports whether standard output is a terminal that can be drawn
// on. It takes every character device for one: what is drawn on /dev/null harms
// nobody.
func onTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// look fails and is readable if what is stored is no quota, and nothing else is
// wrong.
func (c *connection) look(ctx context.Context, name string) (picture.Queue, error) {
	state, err := picture.Inspect(ctx, c.rdb, name, c.prefix)
	if err != nil {
		return picture.Queue{}, err
	}
	return picture.Of(name, state, nil, nil, picture.DefaultGuard)
}

func isReadable(q picture.Queue) bool { return q.At > 0 }

// lines are for a terminal: none takes more than 80 columns.
type lines struct {
	strings.Builder
	last string // the word of the newest line
}

// titled begins what is shown of a queue.
func titled(name string) *lines {
	l := new(lines)
	l.WriteString(fit(printable(name), width) + "\n")
	return l
}

// add has a word before its text, which is not repeated.
func (l *lines) add(word, text string) {
	shown := word
	if word == l.last {
		shown = ""
	}
	l.last = word
	l.WriteString(fit(fmt.Sprintf("  %-9s %s", shown, text), width) + "\n")
}

func table(q picture.Queue) string {
	l := titled(q.Name)
	switch {
	case q.Idle:
		l.add("idle", "Redis knows of nobody who waits, and of nothing that still counts")
	case q.Queued == 0:
		l.add("backlog", permits(0))
	default:
		l.add("backlog", permits(q.Queued)+", the last in "+in(q.Tail))
	}
	if !q.Idle && q.Available != nil {
		l.add("next slot", "in "+in(q.Next))
		l.add("available", permits(*q.Available)+" at once")
	} else if !q.Idle {
		l.add("next slot", "no sooner than in "+in(q.Next))
	}
	paused := "no"
	if q.Paused > 0 {
		paused = "for " + in(q.Paused) + " more"
	}
	l.add("paused", paused)
	for _, f := range q.Flows {
		l.add("flows", fmt.Sprintf("%s: weight %d, %d ahead", fit(printable(f.ID), 40), f.Weight, f.Ahead))
	}
	for _, quota := range q.Quotas {
		l.add("quotas", quota)
	}
	if !q.Stored {
		l.add("quotas", "none is stored: those of the callers hold")
	}
	for _, u := range q.Units {
		l.add("units", fmt.Sprintf("%s %s: backlog %d, available %s",
			u.Name, strings.Join(u.Quotas, " "), u.Queued, number(u.Available)))
	}
	for _, note := range q.Notes {
		l.add("notes", note)
	}
	return l.String()
}

// number is one that may be unknown.
func number(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// calls is available as a list shows it.
func calls(q picture.Queue) string {
	if q.Idle {
		return "all"
	}
	return number(q.Available)
}

// logLine is a view in one line.
func logLine(q picture.Queue, now time.Time) string {
	units := ""
	for _, u := range q.Units {
		units += fmt.Sprintf(" available.%s=%s", u.Name, number(u.Available))
	}
	return fmt.Sprintf("%s %s backlog=%d delay=%s available=%s%s paused=%s", now.UTC().Format(time.RFC3339),
		printable(q.Name), q.Queued, in(q.Next), calls(q), units, in(q.Paused))
}
