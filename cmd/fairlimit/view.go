package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fair"
)

// view is what is to be told of a queue.
type view struct {
	name   string
	status fairlimit.Status
	state  fair.State
	quotas []fairlimit.Quota // the stored ones, else those of the last caller
}

// look asks twice: a busy queue moves on meanwhile.
func (c *call) look(ctx context.Context, name string) (v view, err error) {
	q, err := c.open(name, fairlimit.WithStoredQuota())
	if err != nil {
		return v, err
	}
	v.name = name
	if v.status, err = q.Status(ctx); err != nil {
		return v, err
	}
	if v.state, err = fair.Inspect(ctx, c.rdb, name, fair.WithPrefix(c.prefix)); err != nil {
		return v, err
	}
	for _, q := range v.state.Quotas {
		v.quotas = append(v.quotas, fairlimit.Quota(q))
	}
	if !v.stored() {
		v.quotas = windowsOf(v.state)
	}
	return v, nil
}

// windowsOf are those of the last caller, as quotas.
func windowsOf(s fair.State) (quotas []fairlimit.Quota) {
	for _, w := range s.Windows {
		quotas = append(quotas, fairlimit.Quota{Permits: w.Permits, Per: w.Per})
	}
	return quotas
}

func (v view) stored() bool { return len(v.state.Quotas) > 0 }

// idle is whether nobody uses the queue: all of the quota is to be had.
func (v view) idle() bool {
	return len(v.state.Windows) == 0 && v.status == fairlimit.Status{Available: v.status.Available}
}

// lines is the view on a terminal: no line takes more than 80 columns.
func (v view) lines() []string {
	lines := []string{fit(printable(v.name), width)}
	add := func(what, format string, args ...any) {
		lines = append(lines, fit(fmt.Sprintf("  %-10s", what)+fmt.Sprintf(format, args...), width))
	}
	if v.idle() {
		add("idle", "nobody waits, and nothing that was granted counts any more")
	} else {
		add("backlog", "%d permits", v.status.Queued)
		add("next slot", "in %s%s", brief(v.status.Delay), v.whose())
		add("available", "%d permits at once%s", v.status.Available, v.whose())
	}
	if v.status.Paused > 0 {
		add("paused", "for %s more", brief(v.status.Paused))
	} else {
		add("paused", "no")
	}
	if len(v.state.Flows) > 0 {
		add("flows", "%s", flowsText(v.state.Flows))
	}
	if v.state.Flowless {
		add("", "callers without a flow stand beside them")
	}
	return append(lines, v.quotaLines()...)
}

// whose says for which callers a figure holds. One with other quotas sees
// another.
func (v view) whose() string {
	if v.stored() || len(v.quotas) == 0 {
		return ""
	}
	return ", for a caller with the quotas below"
}

func (v view) quotaLines() (lines []string) {
	what := "quotas"
	add := func(format string, args ...any) {
		lines = append(lines, fit(fmt.Sprintf("  %-10s", what)+fmt.Sprintf(format, args...), width))
		what = ""
	}
	for _, q := range v.quotas {
		add("%s", q)
	}
	switch {
	case v.stored():
		add("stored")
	case len(v.quotas) > 0:
		add("as the queue has them, guard included")
	default:
		add("unknown, none is stored")
	}
	if most := atOnce(v.quotas); most > 0 {
		add("at most %d at one moment", most)
	}
	switch others := windowsOf(v.state); {
	case v.stored() && !v.state.Obeyed && len(others) > 0:
		add("different quotas are in use: the last caller had %s", quotasText(others))
	case v.state.Mixed > 0:
		add("different quotas are in use: others than these have asked lately")
	}
	return lines
}

// atOnce is how many permits may go at one moment, 0 if that is all of each
// quota.
func atOnce(quotas []fairlimit.Quota) int {
	least, most := math.MaxInt, 0
	for _, q := range quotas {
		least, most = min(least, cmp.Or(q.Burst, q.Permits)), max(most, q.Permits)
	}
	if least >= most {
		return 0
	}
	return least
}

// flowsText is "3, of weights 1 1 2".
func flowsText(flows []fair.Flow) string {
	text := fmt.Sprintf("%d, of weights", len(flows))
	for _, f := range flows {
		text += fmt.Sprintf(" %d", f.Weight)
	}
	return text
}

// line is the view in one line, for a log.
func (v view) line(now time.Time) string {
	return fmt.Sprintf("%s %s backlog=%d delay=%s available=%s paused=%s", now.UTC().Format(time.RFC3339),
		printable(v.name), v.status.Queued, brief(v.status.Delay), v.available(), brief(v.status.Paused))
}

func (v view) available() string {
	if v.idle() {
		return "all"
	}
	return strconv.Itoa(v.status.Available)
}

// flow is how a flow is told as JSON.
type flow struct {
	Weight   int `json:"weight"`
	Limiters int `json:"limiters"`
}

// MarshalJSON is documented in the manual.
func (v view) MarshalJSON() ([]byte, error) {
	o := struct {
		Name      string   `json:"name"`
		Idle      bool     `json:"idle"`
		Backlog   int      `json:"backlog"`
		Delay     float64  `json:"delay_seconds"`
		Available *int     `json:"available"`
		Paused    float64  `json:"paused_seconds"`
		Quotas    []string `json:"quotas"`
		Stored    bool     `json:"quotas_stored"`
		Flows     []flow   `json:"flows,omitempty"`
	}{
		Name: v.name, Idle: v.idle(), Backlog: v.status.Queued, Delay: v.status.Delay.Seconds(),
		Paused: v.status.Paused.Seconds(), Quotas: []string{}, Stored: v.stored(),
	}
	if !v.idle() {
		o.Available = &v.status.Available
	}
	for _, q := range v.quotas {
		o.Quotas = append(o.Quotas, q.String())
	}
	for _, f := range v.state.Flows {
		o.Flows = append(o.Flows, flow{f.Weight, f.Limiters})
	}
	return json.Marshal(o)
}
