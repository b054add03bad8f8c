package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/fair"
)

func look(flags *flag.FlagSet) action {
	watch := flags.Bool("watch", false, "show it every second, until interrupted")
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	flows := flags.Bool("flows", false, "show the ceilings of flows, too; goes through all keys")
	return func(ctx context.Context, c *call) error {
		var opts []fair.InspectOption
		if *flows {
			opts = append(opts, fair.WithCeilings())
		}
		drawn := "" // what the next view takes the place of
		show := func() error {
			q, err := c.look(ctx, c.words[0], opts...)
			before := strings.Count(drawn, "\n")
			switch drawn = ""; {
			case !isReadable(q):
				return err
			case *asJSON:
				return cmp.Or(json.NewEncoder(os.Stdout).Encode(q), err)
			case *watch && !onTerminal():
				fmt.Println(logLine(q, time.Now()))
				return err
			case before > 0:
				fmt.Printf("\x1b[%dA\x1b[J", before) // up, and clear what is below
			}
			drawn = table(q, *flows)
			if *watch && !q.Idle {
				drawn += q.Text()
			}
			fmt.Print(drawn)
			return err
		}
		if err := show(); err != nil || !*watch {
			return err
		}
		return everySecond(ctx, show)
	}
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
func (c *call) look(ctx context.Context, name string, opts ...fair.InspectOption) (picture.Queue, error) {
	state, err := fair.Inspect(ctx, c.rdb, name, append(opts, fair.WithPrefix(c.prefix))...)
	return picture.Of(name, state, nil, nil), err
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

func table(q picture.Queue, withCeilings bool) string {
	l := titled(q.Name)
	if q.Idle {
		l.add("idle", "Redis knows of nobody who waits, and of nothing that still counts")
	} else {
		l.add("backlog", permits(q.Queued))
		l.add("next slot", "in "+in(q.Next))
		l.add("available", permits(available(q))+" at once")
	}
	paused := "no"
	if q.Paused > 0 {
		paused = "for " + in(q.Paused) + " more"
	}
	l.add("paused", paused)
	if len(q.Flows) > 0 {
		weights := ""
		for _, f := range q.Flows {
			weights += fmt.Sprintf(" %d", f.Weight)
		}
		l.add("flows", fmt.Sprintf("%d, of weights%s", len(q.Flows), weights))
	}
	if q.Flowless {
		l.add("flows", "callers without a flow stand beside them")
	}
	l.addQuotas(q)
	if withCeilings {
		l.addCeilings(q.Ceilings)
	}
	return l.String()
}

func (l *lines) addQuotas(q picture.Queue) {
	whose := "unknown, none is stored"
	switch {
	case q.NoQuota:
		whose = "what is stored is no quota"
	case q.Stored:
		whose = "stored"
	case len(q.Quotas) > 0:
		whose = "as the queue has them, guard included"
	case !q.Idle:
		whose = "unknown: no limiter has used this name lately; is it spelt right?"
	}
	for _, row := range append(q.Quotas, whose) {
		l.add("quotas", row)
	}
	if q.AtOnce > 0 {
		l.add("quotas", fmt.Sprintf("at most %d at one moment", q.AtOnce))
	}
	if n := len(q.InUse); n > 0 {
		l.add("quotas", fmt.Sprintf("%d different quotas are in use, guard included:", n))
		for _, words := range q.InUse {
			l.add("quotas", "  "+words)
		}
	} else if q.Differ {
		l.add("quotas", "the last caller did not go by these")
	}
	for _, u := range q.Units {
		l.add("units", fmt.Sprintf("%s %s: used %d, backlog %d, available %d",
			u.Name, strings.Join(u.Quotas, " "), u.Held(), u.Queued, u.Available))
	}
}

func (l *lines) addCeilings(all []picture.Ceiling) {
	if len(all) == 0 {
		l.add("ceilings", "no flow has one, nor a pause")
	}
	for _, c := range all {
		text := "no ceiling"
		if len(c.Quotas) > 0 {
			text = fmt.Sprintf("%d of %s", c.Used, strings.Join(c.Quotas, " "))
		}
		if c.Stored {
			text += " stored"
		}
		if c.Next > c.Paused {
			text += ", room in " + in(c.Next)
		}
		if c.Paused > 0 {
			text += ", paused for " + in(c.Paused) + " more"
		}
		l.add("ceilings", fit(printable(c.Flow), 30)+": "+text)
	}
}

// available is how many permits can be had at once, 0 if that is unknown.
func available(q picture.Queue) int64 {
	if q.Available == nil {
		return 0
	}
	return *q.Available
}

// calls is available as a list shows it.
func calls(q picture.Queue) string {
	if q.Idle {
		return "all"
	}
	return fmt.Sprint(available(q))
}

// logLine is a view in one line.
func logLine(q picture.Queue, now time.Time) string {
	units, differ := "", ""
	for _, u := range q.Units {
		units += fmt.Sprintf(" available.%s=%d", u.Name, u.Available)
	}
	if q.Differ {
		differ = " quotas=different"
	}
	return fmt.Sprintf("%s %s backlog=%d delay=%s available=%s%s paused=%s%s", now.UTC().Format(time.RFC3339),
		printable(q.Name), q.Queued, in(q.Next), calls(q), units, in(q.Paused), differ)
}
