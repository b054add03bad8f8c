package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/picture"
	"github.com/fairlimit/fairlimit/engine"
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
			v.flows = *flows
			before := strings.Count(drawn, "\n")
			switch drawn = ""; {
			case err != nil:
				return err
			case *asJSON:
				return json.NewEncoder(os.Stdout).Encode(v)
			case *watch && !onTerminal():
				fmt.Println(v.line(time.Now()))
				return nil
			case before > 0:
				fmt.Printf("\x1b[%dA\x1b[J", before) // up, and clear what is below
			}
			drawn = v.table()
			if *watch {
				drawn += v.picture()
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

// view is what is to be told of a queue. Its JSON is documented in the manual.
type view struct {
	Name      string   `json:"name"`
	Idle      bool     `json:"idle"` // nobody uses the queue: all of the quota is to be had
	Backlog   int      `json:"backlog"`
	Delay     float64  `json:"delay_seconds"`
	Available *int     `json:"available"` // nil if idle
	Paused    float64  `json:"paused_seconds"`
	Quotas    []string `json:"quotas"` // the stored ones, else the windows of the last caller
	Stored    bool     `json:"quotas_stored"`
	Differ    bool     `json:"quotas_differ"` // callers with different quotas use the queue
	Flows     []flow   `json:"flows,omitempty"`

	Ceilings []ceiling `json:"ceilings,omitempty"` // if they were asked for

	Units map[string]unit `json:"units,omitempty"` // of the stored quotas

	status fairlimit.Status
	state  fair.State
	flows  bool // show their ceilings
	quotas []engine.Quota
}

type unit struct {
	Backlog   int      `json:"backlog"`
	Available int      `json:"available"`
	Quotas    []string `json:"quotas"`
}

type flow struct {
	Weight   int `json:"weight"`
	Limiters int `json:"limiters"`
}

type ceiling struct {
	Flow   string   `json:"flow"`
	Quotas []string `json:"quotas"` // the stored one, else the windows of the given one
	Stored bool     `json:"quotas_stored"`
	Used   int64    `json:"used"` // permits that count now
	Delay  float64  `json:"delay_seconds"`
	Paused float64  `json:"paused_seconds"`
}

// look asks twice: a busy queue moves on meanwhile.
func (c *call) look(ctx context.Context, name string, opts ...fair.InspectOption) (v view, err error) {
	q, err := c.open(name, fairlimit.WithStoredQuota())
	if err != nil {
		return v, err
	}
	if v.status, err = q.Status(ctx); err != nil {
		return v, err
	}
	if v.state, err = c.inspect(ctx, name, opts...); err != nil {
		return v, err
	}
	v.Name, v.Backlog = name, v.status.Queued
	v.Delay, v.Paused = v.status.Delay.Seconds(), v.status.Paused.Seconds()
	v.Idle = len(v.state.Windows) == 0 && reflect.DeepEqual(v.status,
		fairlimit.Status{Available: v.status.Available, Units: v.status.Units})
	if !v.Idle {
		v.Available = &v.status.Available
	}
	v.quotas = v.state.Quotas
	if v.Stored = len(v.quotas) > 0; !v.Stored {
		v.quotas = windowsOf(v.state.Windows)
	}
	v.Quotas = texts(v.quotas)
	v.Differ = v.disobeyed() || v.state.Mixed > 0
	v.Units = map[string]unit{} // left out of the JSON if it stays empty
	for _, u := range v.state.Units {
		s := v.status.Units[u.Name]
		v.Units[u.Name] = unit{s.Queued, s.Available, texts(u.Quotas)}
	}
	for _, f := range v.state.Flows {
		v.Flows = append(v.Flows, flow{f.Weight, f.Limiters})
	}
	for _, f := range v.state.Ceilings {
		v.Ceilings = append(v.Ceilings, ceilingOf(f))
	}
	return v, nil
}

// inspect is for what Status does not tell.
func (c *call) inspect(ctx context.Context, name string, opts ...fair.InspectOption) (fair.State, error) {
	rdb, err := c.client()
	if err != nil {
		return fair.State{}, err
	}
	return fair.Inspect(ctx, rdb, name, append(opts, fair.WithPrefix(c.prefix))...)
}

// windowsOf are windows as quotas.
func windowsOf(windows []fair.Window) (quotas []engine.Quota) {
	for _, w := range windows {
		quotas = append(quotas, engine.Quota{Permits: w.Permits, Per: w.Per})
	}
	return quotas
}

// texts are what the command quota reads.
func texts(quotas []engine.Quota) []string {
	all := make([]string, len(quotas))
	for i, q := range quotas {
		all[i] = fairlimit.Quota(q).String()
	}
	return all
}

func ceilingOf(f fair.Ceiling) ceiling {
	c := ceiling{Flow: f.Flow, Quotas: texts(windowsOf(f.Windows)), Delay: f.Next.Seconds(), Paused: f.Paused.Seconds()}
	if len(f.Windows) > 0 {
		c.Used = f.Windows[0].Held
	}
	if f.Quota.Permits > 0 {
		c.Quotas, c.Stored = texts([]engine.Quota{f.Quota}), true
	}
	return c
}

// lines are for a terminal: none takes more than 80 columns.
type lines struct{ strings.Builder }

func (l *lines) add(what, format string, args ...any) {
	l.WriteString(fit(fmt.Sprintf("  %-10s", what)+fmt.Sprintf(format, args...), width) + "\n")
}

func (v view) table() string {
	var l lines
	l.WriteString(fit(printable(v.Name), width) + "\n")
	if v.Idle {
		l.add("idle", "nobody waits, and nothing that was granted counts any more")
	} else {
		l.add("backlog", "%d permits", v.Backlog)
		l.add("next slot", "in %s%s", brief(v.status.Delay), v.whose())
		l.add("available", "%d permits at once%s", v.status.Available, v.whose())
	}
	if v.Paused > 0 {
		l.add("paused", "for %s more", brief(v.status.Paused))
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
	if v.flows {
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
		c, text := ceilingOf(f), "no ceiling"
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

// picture is the line of the queue, if anything in it counts.
func (v view) picture() string {
	q := picture.Of(v.Name, v.state)
	if q.Idle {
		return ""
	}
	return q.Text()
}

// whose says for which callers a figure holds. One with other quotas sees
// another.
func (v view) whose() string {
	if v.Stored || len(v.Quotas) == 0 {
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
	if most := atOnce(v.quotas); most > 0 {
		l.add("", "at most %d at one moment", most)
	}
	what = "units"
	for _, name := range slices.Sorted(maps.Keys(v.Units)) {
		u := v.Units[name]
		l.add(what, "%s %s: backlog %d, available %d", name, strings.Join(u.Quotas, " "), u.Backlog, u.Available)
		what = ""
	}
	switch {
	case v.disobeyed():
		l.add("", "different quotas are in use: the last caller had %s", strings.Join(texts(windowsOf(v.state.Windows)), " "))
	case v.Differ:
		l.add("", "different quotas are in use: others than these have asked lately")
	}
}

// disobeyed is whether the last caller went by other quotas than the stored ones.
func (v view) disobeyed() bool {
	return v.Stored && !v.state.Obeyed && len(v.state.Windows) > 0
}

// atOnce is how many permits may go at one moment, 0 if that is all of each
// quota.
func atOnce(quotas []engine.Quota) int {
	least, most := math.MaxInt, 0
	for _, q := range quotas {
		least, most = min(least, cmp.Or(q.Burst, q.Permits)), max(most, q.Permits)
	}
	if least >= most {
		return 0
	}
	return least
}

// line is the view in one line, for a log.
func (v view) line(now time.Time) string {
	available := "all"
	if !v.Idle {
		available = strconv.Itoa(v.status.Available)
	}
	text := fmt.Sprintf("%s %s backlog=%d delay=%s available=%s paused=%s", now.UTC().Format(time.RFC3339),
		printable(v.Name), v.Backlog, brief(v.status.Delay), available, brief(v.status.Paused))
	if v.Differ {
		text += " quotas=different"
	}
	return text
}
