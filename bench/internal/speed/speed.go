// Package speed measures how fast the library is on a real Redis. A figure
// stands beside its yardstick, something whose cost everybody knows. Both are
// measured in the same run and in turn. What another machine, or a busy one,
// does to both is not in their ratio.
//
// All calls go through the public API. What scripts cost the server is what the
// server says.
package speed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// row is one thing that is measured, ours beside a yardstick.
type row struct {
	group     string
	what      string
	unit      string
	yardstick string // empty without one
	known     side   // nil without one
	ours      side
	goal      Goal // zero for none
}

// side makes ready what is measured, does it while the loop goes on, and returns
// the figure.
type side func(context.Context, *bed, loop) (float64, error)

// loop says whether to go on. A [testing.B] is one.
type loop interface{ Loop() bool }

// round is a loop that goes on for a time, from its first turn on.
type round struct {
	lasting time.Duration
	end     time.Time
}

func (r *round) Loop() bool {
	if r.end.IsZero() {
		r.end = time.Now().Add(r.lasting)
		return true
	}
	return time.Now().Before(r.end)
}

// Run is one run of the command.
type Run struct {
	Redis    string // host:port or redis:// URL; empty: a redis-server of the run's own
	Rows     string // only those whose name contains it
	Rounds   int    // of yardstick and ours in turn
	Round    time.Duration
	Progress io.Writer // told of each row before it is measured, and of each that could not be
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
	b, err := newBed(ctx, redis.Addr)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all.Server = redis.Name
	for _, row := range rows {
		if !strings.Contains(row.group+": "+row.what, r.Rows) {
			continue
		}
		fmt.Fprintf(r.Progress, "%s\n", row.what)
		f, err := r.measure(ctx, b, row)
		if ctx.Err() != nil {
			return all, nil
		}
		if err == nil {
			all.Figures = append(all.Figures, f)
			err = json.NewEncoder(r.JSON).Encode(f)
		}
		if err != nil {
			all.Failed = true
			fmt.Fprintf(r.Progress, "%s: not measured: %v\n", row.what, err)
		}
	}
	if len(all.Figures) == 0 && !all.Failed {
		err = fmt.Errorf("-rows: no row has %q in its name", r.Rows)
	}
	return all, err
}

// measure is round by round. Who comes first changes from round to round, so
// that a machine that gets slower or faster meanwhile favours neither.
func (r Run) measure(ctx context.Context, b *bed, of row) (f Figure, err error) {
	runtime.GC() // what another row has left behind
	var values [2][]float64
	sides := [2]side{of.known, of.ours}
	for n := range r.Rounds {
		for _, i := range [2]int{n % 2, 1 - n%2} {
			if sides[i] == nil {
				continue
			}
			value, err := sides[i](ctx, b, &round{lasting: r.Round})
			if err != nil {
				return f, err
			}
			values[i] = append(values[i], value)
		}
	}
	return of.figure(values[0], values[1]), nil
}
