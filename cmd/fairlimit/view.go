package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

// view is what is to be told of a queue.
type view struct {
	name   string
	status fairlimit.Status
	idle   bool // nobody uses it: all of the quota is to be had
	quotas []fairlimit.Quota
	stored bool // else they are those of the last caller
	flows  []flow
}

// look asks three things, one after the other: a busy queue moves on meanwhile.
func (c *call) look(ctx context.Context, name string) (v view, err error) {
	q, err := c.open(name, fairlimit.WithStoredQuota())
	if err != nil {
		return v, err
	}
	v.name = name
	if v.status, err = q.Status(ctx); err != nil {
		return v, err
	}
	if v.quotas, v.stored, err = q.Quotas(ctx); err != nil {
		return v, err
	}
	state, err := c.rdb.Get(ctx, c.key(name)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return v, err
	}
	windows := windowsOf(state)
	v.flows = flowsOf(state)
	v.idle = len(windows) == 0 && v.status == fairlimit.Status{Available: v.status.Available}
	if len(v.quotas) == 0 {
		v.quotas = windows
	}
	return v, nil
}

var window = regexp.MustCompile(`^(\d+)/(\d+)`)

// noWindows is the second word of a state in which nobody was granted anything:
// it was paused or reset by those who know no quota.
const noWindows = "1/1"

// windowsOf reads the windows of the last caller, which are the second word of
// a state: see package fair. A caller's guard has made them longer.
func windowsOf(state string) (quotas []fairlimit.Quota) {
	words := strings.SplitN(state, " ", 3)
	if len(words) < 3 || !strings.HasPrefix(words[0], "fair") || words[1] == noWindows {
		return nil
	}
	for _, word := range strings.Split(words[1], ",") {
		if m := window.FindStringSubmatch(word); m != nil {
			permits, _ := strconv.Atoi(m[1])
			micros, _ := strconv.ParseInt(m[2], 10, 64)
			quotas = append(quotas, fairlimit.Quota{Permits: permits, Per: time.Duration(micros) * time.Microsecond})
		}
	}
	return quotas
}

// lines is the view on a terminal: no line takes more than 80 columns.
func (v view) lines() []string {
	lines := []string{fit(printable(v.name), width)}
	add := func(what, format string, args ...any) {
		lines = append(lines, fit(fmt.Sprintf("  %-10s", what)+fmt.Sprintf(format, args...), width))
	}
	if v.idle {
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
	if len(v.flows) > 0 {
		add("flows", "%s", flowsText(v.flows))
	}
	return append(lines, v.quotaLines()...)
}

// whose says for which callers a figure holds. One with other quotas sees
// another.
func (v view) whose() string {
	if v.stored || len(v.quotas) == 0 {
		return ""
	}
	return ", for a caller with the quotas below"
}

func (v view) quotaLines() []string {
	what, lines := "quotas", []string(nil)
	for _, q := range v.quotas {
		lines = append(lines, fmt.Sprintf("  %-10s%s", what, q))
		what = ""
	}
	switch {
	case v.stored:
		lines = append(lines, fmt.Sprintf("  %-10s%s", what, "stored"))
	case len(v.quotas) > 0:
		lines = append(lines, fmt.Sprintf("  %-10s%s", what, "as the queue has them, guard included"))
	default:
		lines = append(lines, fmt.Sprintf("  %-10s%s", what, "unknown, none is stored"))
	}
	return lines
}

// line is the view in one line, for a log.
func (v view) line(now time.Time) string {
	return fmt.Sprintf("%s %s backlog=%d delay=%s available=%s paused=%s", now.UTC().Format(time.RFC3339),
		printable(v.name), v.status.Queued, brief(v.status.Delay), v.available(), brief(v.status.Paused))
}

func (v view) available() string {
	if v.idle {
		return "all"
	}
	return strconv.Itoa(v.status.Available)
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
		Name: v.name, Idle: v.idle, Backlog: v.status.Queued, Delay: v.status.Delay.Seconds(),
		Paused: v.status.Paused.Seconds(), Quotas: []string{}, Stored: v.stored, Flows: v.flows,
	}
	if !v.idle {
		o.Available = &v.status.Available
	}
	for _, q := range v.quotas {
		o.Quotas = append(o.Quotas, q.String())
	}
	return json.Marshal(o)
}
