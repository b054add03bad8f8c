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
	"errors"
	"fmt"
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

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("speed is measured on a real Redis: " +
	"it needs redis-server in PATH, or one that answers at -redis host:port")

// Run is one run of the command.
type Run struct {
	Redis string   // host:port or redis:// URL; empty: a redis-server of the run's own
	Rows  []string // names of groups; empty: all
	Scale Scale
	Begin func(row, about string, number, all int) // told of each group before it is measured
	Took  func(Figure)                             // given each figure once it is there
	Fault func(row string, err error)              // told of each row that could not be measured
}

// Check says what of it cannot be done, before anything is begun.
func (r Run) Check() error {
	_, err := r.chosen()
	return err
}

// Measure measures row after row, and returns what it measured them on. It ends
// when ctx does, without an error. An error is for what cannot be done at all.
func (r Run) Measure(ctx context.Context) (server string, err error) {
	chosen, err := r.chosen()
	if err != nil {
		return "", err
	}
	var redis *backend.Backend
	if r.Redis != "" {
		redis, err = backend.Open(ctx, r.Redis)
	} else {
		redis, err = backend.Start(ctx)
	}
	switch {
	case errors.Is(err, backend.ErrNoServer):
		return "", ErrNoServer
	case err != nil:
		return "", err
	}
	defer redis.Close()
	for i, group := range chosen {
		r.Begin(group[0], group[1], i+1, len(chosen))
		var got taken
		err := run.Ask(ctx, Role, job{Group: group[0], Redis: redis.Addr, Scale: r.Scale}, &got)
		switch {
		case ctx.Err() != nil:
			return redis.Name, nil
		case err != nil:
			r.Fault(group[0], err)
		}
		for _, figure := range got.Figures {
			r.Took(figure)
		}
		for _, failed := range got.Failed {
			r.Fault(group[0], errors.New(failed))
		}
	}
	return redis.Name, nil
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
