// Package speed measures how fast the library is on a real Redis, with Go
// benchmarks: ours, and the yardstick beside it, something whose cost everybody
// knows. Both run in turn, so that a busy machine does not change their ratio.
//
// All calls go through the public API. What scripts cost the server is what the
// server says.
package speed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// Run is one run of the command.
type Run struct {
	Redis    string // host:port or redis:// URL; empty: a redis-server of the run's own
	Rows     string // only those whose name contains it
	Rounds   int    // of ours and yardstick in turn
	Round    string // how long each lasts
	Progress io.Writer
}

// Open finds the server.
func (r Run) Open(ctx context.Context) (*backend.Backend, error) {
	if r.Redis != "" {
		return backend.Open(ctx, r.Redis)
	}
	server, err := backend.Start(ctx)
	if errors.Is(err, backend.ErrNoServer) {
		err = fmt.Errorf("%w, and speed is measured on a real one: give -redis host:port", err)
	}
	return server, err
}

// Table measures row after row, and writes a line for each.
func (r Run) Table(ctx context.Context, server *backend.Backend, w io.Writer) error {
	testing.Init()
	if err := flag.Set("test.benchtime", r.Round); err != nil {
		return err
	}
	picked := slices.DeleteFunc(slices.Clone(rows), func(row row) bool { return !strings.Contains(row.name, r.Rows) })
	if len(picked) == 0 {
		return fmt.Errorf("-rows: no row has %q in its name", r.Rows)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tours\tyardstick\t\tratio\tmiddle half")
	for _, row := range picked {
		fmt.Fprintln(r.Progress, row.name)
		var ours, known, ratios []float64
		for range r.Rounds {
			value, err := row.measure(ctx, server, row.ours)
			yardstick, failed := row.measure(ctx, server, row.known)
			if err := errors.Join(err, failed); err != nil || ctx.Err() != nil {
				_ = table.Flush() // what there is
				return err
			}
			ours, known, ratios = append(ours, value), append(known, yardstick), append(ratios, value/yardstick)
		}
		fmt.Fprintf(table, "%s\t%.3g %s\t%s\t%.3g %s\t%.2f\t%.2f–%.2f\n", row.name, quantile(ours, 2), row.unit,
			row.yardstick, quantile(known, 2), row.unit, quantile(ratios, 2), quantile(ratios, 1), quantile(ratios, 3))
	}
	return table.Flush()
}

// measure runs a benchmark, and returns what it reports in the row's unit.
func (r row) measure(ctx context.Context, server *backend.Backend, of side) (float64, error) {
	var failed error
	result := testing.Benchmark(func(b *testing.B) { failed = run(ctx, b, server.Client, of) })
	if failed != nil {
		return 0, fmt.Errorf("%s: %w", r.name, failed)
	}
	return result.Extra[r.unit], nil
}

// quantile is so many quarters into the values.
func quantile(values []float64, quarters int) float64 {
	slices.Sort(values)
	return values[min(len(values)-1, len(values)*quarters/4)]
}
