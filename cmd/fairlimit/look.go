package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
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
			v, err := c.look(ctx, c.words[0], opts...)
			before := strings.Count(drawn, "\n")
			switch drawn = ""; {
			case err != nil:
				return err
			case *asJSON:
				return json.NewEncoder(os.Stdout).Encode(v.Queue)
			case *watch && !onTerminal():
				fmt.Println(v.line(time.Now()))
				return nil
			case before > 0:
				fmt.Printf("\x1b[%dA\x1b[J", before) // up, and clear what is below
			}
			drawn = v.table(*flows)
			if *watch && !v.Idle {
				drawn += v.Text()
			}
			fmt.Print(drawn)
			return nil
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

// view is what is to be told of a queue. Its JSON is that of the picture, as
// `fairlimit serve` answers.
type view struct {
	picture.Queue
	state fair.State
}

func (c *call) look(ctx context.Context, name string, opts ...fair.InspectOption) (view, error) {
	state, err := c.inspect(ctx, name, opts...)
	return view{picture.Of(name, state), state}, err
}

func (c *call) inspect(ctx context.Context, name string, opts ...fair.InspectOption) (fair.State, error) {
	rdb, err := c.client()
	if err != nil {
		return fair.State{}, err
	}
	return fair.Inspect(ctx, rdb, name, append(opts, fair.WithPrefix(c.prefix))...)
}

// lines are for a terminal: none takes more than 80 columns.
type lines struct{ strings.Builder }

func (l *lines) add(what, format string, args ...any) {
	l.WriteString(fit(fmt.Sprintf("  %-10s", what)+fmt.Sprintf(format, args...), width) + "\n")
}

func (v view) table(withCeilings bool) string {
	var l lines
	l.WriteString(fit(printable(v.Name), width) + "\n")
	if v.Idle {
		l.add("idle", "nobody waits, and nothing that was granted counts any more")
	} else {
		l.add("backlog", "%s", permits(v.Queued))
		l.add("next slot", "in %s%s", brief(v.state.Next), v.whose())
		l.add("available", "%s at once%s", permits(v.state.Available), v.whose())
	}
	if v.state.Paused > 0 {
		l.add("paused", "for %s more", brief(v.state.Paused))
	} else {
		l.add("paused", "no")
	}
	if len(v.Flows) > 0 {
		weights := ""
		for _, f := range v.Flows {
			weights += fmt.Sprintf(" %d", f.Weight)
		}
		l.add("flows", "%d, of weights%s", len(v.Flows), weights)
	}
	if v.state.Flowless {
		l.add("", "callers without a flow stand beside them")
	}
	v.addQuotas(&l)
	if withCeilings {
		l.addCeilings(v.state.Ceilings)
	}
	return l.String()
}

// addCeilings has a line for each flow.
func (l *lines) addCeilings(all []fair.Ceiling) {
	what := "ceilings"
	if len(all) == 0 {
		l.add(what, "no flow has one, nor a pause")
	}
	for _, f := range all {
		c, text := picture.CeilingOf(f), "no ceiling"
		if len(c.Quotas) > 0 {
			text = fmt.Sprintf("%d of %s", c.Used, strings.Join(c.Quotas, " "))
		}
		if c.Stored {
			text += " stored"
		}
		if f.Next > f.Paused {
			text += ", room in " + brief(f.Next)
		}
		if f.Paused > 0 {
			text += ", paused for " + brief(f.Paused) + " more"
		}
		l.add(what, "%s: %s", fit(printable(f.Flow), 30), text)
		what = ""
	}
}

// whose says for which callers a figure holds. One with other quotas sees
// another.
func (v view) whose() string {
	switch {
	case v.Disobeyed(&v.state):
		return ", for the last caller"
	case v.Stored, len(v.Quotas) == 0:
		return ""
	}
	return ", for a caller with the quotas below"
}

func (v view) addQuotas(l *lines) {
	what := "quotas"
	for _, q := range v.Quotas {
		l.add(what, "%s", q)
		what = ""
	}
	switch {
	case v.Stored:
		l.add(what, "stored")
	case len(v.Quotas) > 0:
		l.add(what, "as the queue has them, guard included")
	default:
		l.add(what, "unknown, none is stored")
	}
	if most := v.atOnce(); most > 0 {
		l.add("", "at most %d at one moment", most)
	}
	what = "units"
	for _, u := range v.Units {
		l.add(what, "%s %s: used %d, backlog %d, available %d",
			u.Name, strings.Join(u.Quotas, " "), u.Held(), u.Queued, u.Available)
		what = ""
	}
	switch {
	case v.Disobeyed(&v.state):
		last := picture.Texts(picture.Quotas(v.state.Windows))
		l.add("", "different quotas are in use: the last caller had %s", strings.Join(last, " "))
	case v.Differ:
		l.add("", "different quotas are in use: others than these have asked lately")
	}
}

// atOnce is how many permits may go at one moment, 0 if that is all of each
// quota.
func (v view) atOnce() (least int64) {
	quotas, most := v.state.Quotas, 0
	if !v.Stored {
		quotas = picture.Quotas(v.state.Windows)
	}
	for _, q := range quotas {
		most = max(most, q.Permits)
	}
	if least = picture.AtOnce(quotas); least >= int64(most) {
		return 0
	}
	return least
}

// line is the view in one line, for a log.
func (v view) line(now time.Time) string {
	available, units := "all", ""
	if !v.Idle {
		available = strconv.FormatInt(v.state.Available, 10)
	}
	for _, u := range v.Units {
		units += fmt.Sprintf(" available.%s=%d", u.Name, u.Available)
	}
	text := fmt.Sprintf("%s %s backlog=%d delay=%s available=%s%s paused=%s", now.UTC().Format(time.RFC3339),
		printable(v.Name), v.Queued, brief(v.state.Next), available, units, brief(v.state.Paused))
	if v.Differ {
		text += " quotas=different"
	}
	return text
}
