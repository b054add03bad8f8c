// Package speed measures how fast the library is on a real Redis. A figure
// stands beside its yardstick, something whose cost everybody knows. Both are
// measured in the same run and in turn. What another machine, or a busy one,
// does to both is not in their ratio.
//
// Each row is measured in a process of its own, this program started again, so
// that no row finds what another has left behind.
package speed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlimit/fairlimit/bench/internal/backend"
)

// row is what is measured in one process; it may give several figures.
type row struct {
	name    string
	about   string
	measure func(context.Context, *bed) ([]Figure, error)
}

// rows are in the order of the table.
var rows = []row{
	{"throughput", "1024 callers on one name, in one process and in four", throughput},
	{"alone", "one caller and nobody else", alone},
	{"peer-alone", "one caller beside one of redis_rate", peerAlone},
	{"limiters", "64 limiters with one caller each", limiters},
	{"channels", "1024 callers beside a goroutine that only answers", channels},
	{"crowd", "64 callers, and how long the slowest take", crowd},
	{"allocations", "what a call allocates", allocations},
	{"script", "what one reservation costs the server", single},
	{"busy", "the same without a pause between two questions", busy},
	{"spread", "the same with traffic spread over the window", spread},
	{"batch", "what a grant costs the server in a batch of 64", batch},
	{"queue", "what one reservation costs behind a long queue", queue},
	{"bytes", "what a quota takes up in Redis", held},
	{"calls", "what the server is asked for a grant when 200 come at once", calls},
	{"punctual", "when a call returns after its slot", punctual},
	{"asleep", "what callers cost while they sleep", asleep},
	{"idle", "what limiters cost while nobody calls", idle},
}

// Names are those of the rows.
func Names() (names []string) {
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("speed is measured on a real Redis: " +
	"it needs redis-server in PATH, or one that answers at -redis host:port")

// Run is one run of the command.
type Run struct {
	Redis string   // host:port or redis:// URL; empty: a redis-server of the run's own
	Rows  []string // names; empty: all
	Scale Scale
	Begin func(row, about string, number, all int) // told of each row before it is measured
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
	redis, err := open(ctx, r.Redis)
	if err != nil {
		return "", err
	}
	defer redis.Close()
	for i, row := range chosen {
		r.Begin(row.name, row.about, i+1, len(chosen))
		var figures []Figure
		err := spawn(ctx, job{Task: row.name, Redis: redis.Addr, Scale: r.Scale}, &figures)
		switch {
		case ctx.Err() != nil:
			return redis.Name, nil
		case err != nil:
			r.Fault(row.name, err)
		}
		for _, figure := range figures {
			r.Took(figure)
		}
	}
	return redis.Name, nil
}

func (r Run) chosen() (chosen []row, err error) {
	if len(r.Rows) == 0 {
		return rows, nil
	}
	for _, name := range r.Rows {
		found := false
		for _, row := range rows {
			if row.name == name {
				chosen, found = append(chosen, row), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-rows: there is no %q, but %s", name, strings.Join(Names(), ", "))
		}
	}
	return chosen, nil
}

func open(ctx context.Context, addr string) (*backend.Backend, error) {
	if addr != "" {
		return backend.Open(ctx, addr)
	}
	server, err := backend.Start(ctx)
	if errors.Is(err, backend.ErrNoServer) {
		return nil, ErrNoServer
	}
	return server, err
}
