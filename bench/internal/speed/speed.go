// Package speed measures how fast the library is on a real Redis. A figure
// stands beside its yardstick, something whose cost everybody knows. Both are
// measured in the same run and in turn. What another machine, or a busy one,
// does to both is not in their ratio.
package speed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// Names are those of the groups of rows, which may be chosen.
func Names() (names []string) {
	for _, r := range rows {
		if !slices.Contains(names, r.group) {
			names = append(names, r.group)
		}
	}
	return names
}

// Groups are those of a list of names, or all of them.
func Groups(list string) (groups []string, err error) {
	if list == "all" {
		return Names(), nil
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("-rows: there is no %q, but %s", name, strings.Join(Names(), ", "))
		}
		groups = append(groups, name)
	}
	return groups, nil
}

// Run is one run of the command.
type Run struct {
	Redis    string   // host:port or redis:// URL; empty: a redis-server of the run's own
	Groups   []string // of rows
	Scale    Scale
	Progress io.Writer // told of each group before it is measured, and of each row that could not be
	JSON     io.Writer // given each figure once it is there
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
	for i, group := range r.Groups {
		fmt.Fprintf(r.Progress, "%d/%d %s\n", i+1, len(r.Groups), group)
		figures, err := r.group(ctx, redis.Addr, group)
		if ctx.Err() != nil {
			return all, nil
		}
		all.Figures = append(all.Figures, figures...)
		for _, f := range figures {
			err = errors.Join(err, json.NewEncoder(r.JSON).Encode(f))
		}
		if err != nil {
			all.Failed = true
			fmt.Fprintf(r.Progress, "%s: not measured: %v\n", group, err)
		}
	}
	return all, nil
}

// group measures the rows of a group on a bed of their own. If rows have several
// figures, the first ones of all rows come first.
func (r Run) group(ctx context.Context, addr, name string) (figures []Figure, err error) {
	rdb, err := backend.Connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	b := newBed(r.Scale, addr, rdb)
	defer func() { err = errors.Join(err, b.close()) }()
	runtime.GC() // what another group has left behind
	var by [3][]Figure
	for _, row := range rows {
		if row.group != name {
			continue
		}
		got, failed := row.measure(ctx, b)
		err = errors.Join(err, failed)
		for i, f := range got {
			by[i] = append(by[i], f)
		}
	}
	return slices.Concat(by[:]...), err
}
