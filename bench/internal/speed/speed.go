// Package speed measures how fast the library is on a real Redis. A figure
// stands beside its yardstick, something whose cost everybody knows. Both are
// measured in the same run and in turn. What another machine, or a busy one,
// does to both is not in their ratio.
//
// Each group of rows is measured in a process of its own, this program started
// again, so that none finds what another has left behind.
package speed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// rows are in the order of the table.
var rows = slices.Concat(whole, scriptRows(), batchRows(), queueRows(), longestRows())

// groups are what may be chosen of the rows, each with what it shows.
var groups = [][2]string{
	{"throughput", "1024 callers on one name, in one process and in four"},
	{"alone", "one caller and nobody else"},
	{"peer-alone", "one caller beside one of redis_rate"},
	{"limiters", "64 limiters with one caller each"},
	{"crowd", "64 callers, and how long the slowest take"},
	{"script", "one request, back to back and cold, of queues as people configure them"},
	{"batch", "what a grant costs the server in a batch of 64"},
	{"queue", "one request behind a long queue"},
	{"longest", "how long the server is busy with one script"},
}

// Names are those of the groups.
func Names() (names []string) {
	for _, g := range groups {
		names = append(names, g[0])
	}
	return names
}

// Run is one run of the command.
type Run struct {
	Redis    string   // host:port or redis:// URL; empty: a redis-server of the run's own
	Rows     []string // names of groups; empty: all
	Scale    Scale
	Progress io.Writer // told of each group before it is measured, and of each row that could not be
	JSON     io.Writer // given each figure once it is there
}

// Check says what of it cannot be done, before anything is begun.
func (r Run) Check() error {
	_, err := r.chosen()
	return err
}

// Taken is what a run gave, and on which server.
type Taken struct {
	Server  string
	Figures []Figure
	Failed  bool // something could not be measured
}

// Measure measures row after row. It ends when ctx does, without an error. An
// error is for what cannot be done at all.
func (r Run) Measure(ctx context.Context) (all Taken, err error) {
	chosen, err := r.chosen()
	if err != nil {
		return all, err
	}
	var redis *backend.Backend
	if r.Redis != "" {
		redis, err = backend.Open(ctx, r.Redis)
	} else if redis, err = backend.Start(ctx); errors.Is(err, backend.ErrNoServer) {
		err = fmt.Errorf("%w, and speed is measured on a real one: give -redis host:port", err)
	}
	if err != nil {
		return all, err
	}
	defer redis.Close()
	all.Server = redis.Name
	for i, group := range chosen {
		fmt.Fprintf(r.Progress, "%d/%d %s: %s\n", i+1, len(chosen), group[0], group[1])
		var got taken
		err := run.Ask(ctx, Role, job{Group: group[0], Redis: redis.Addr, Scale: r.Scale}, &got)
		if ctx.Err() != nil {
			return all, nil
		}
		if err != nil {
			got.Failed = append(got.Failed, err.Error())
		}
		for _, f := range got.Figures {
			all.Figures = append(all.Figures, f)
			if err := json.NewEncoder(r.JSON).Encode(f); err != nil {
				got.Failed = append(got.Failed, err.Error())
			}
		}
		for _, failed := range got.Failed {
			all.Failed = true
			fmt.Fprintf(r.Progress, "%s: not measured: %s\n", group[0], failed)
		}
	}
	return all, nil
}

func (r Run) chosen() (chosen [][2]string, err error) {
	if len(r.Rows) == 0 {
		return groups, nil
	}
	for _, name := range r.Rows {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("-rows: there is no %q, but %s", name, strings.Join(Names(), ", "))
		}
		chosen = append(chosen, groups[i])
	}
	return chosen, nil
}
