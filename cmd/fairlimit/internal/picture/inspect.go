package picture

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/fair"
)

// This file is what the command knows of package fair. What is below takes the
// place of a State that fair does not offer yet.

// State is a queue as Redis holds it at one moment.
type State struct {
	Now    time.Time     // the server's time
	Begun  time.Time     // when the queue began, or was requeued last; zero if only quotas are stored
	Voided bool          // it was requeued or reset since it began
	Void   time.Time     // up to when turns of before the requeue stand
	Paused time.Duration // how much longer it is paused
	Tail   time.Time     // when the newest slot comes
	TTL    time.Duration // for how long the queue lives
	Units  []UnitLog     // calls first, whose name is empty
	Flows  []ActiveFlow
	Stored string // the stored quotas as text, empty for none
}

// UnitLog is the log of one unit.
type UnitLog struct {
	Name    string
	Total   int64
	Missing bool   // its key is missing
	Cells   []Cell // oldest first
}

// Cell is permits that have one slot.
type Cell struct {
	At      time.Time
	Permits int
}

// ActiveFlow is a flow that uses the queue.
type ActiveFlow struct {
	ID     string
	Weight int
	Ahead  int // permits granted ahead
}

// Inspect returns nil if there is neither a queue nor a stored quota.
func Inspect(ctx context.Context, rdb redis.UniversalClient, name, prefix string) (*State, error) {
	old, err := fair.Inspect(ctx, rdb, name, fair.WithPrefix(prefix))
	if err != nil && old.Text == "" {
		return nil, err
	}
	idle := len(old.Windows) == 0 && old.Backlog == 0 && old.Paused == 0
	if idle && old.Text == "" {
		return nil, nil
	}
	s := &State{Now: old.At, Paused: old.Paused, TTL: old.TTL, Stored: old.Text}
	if idle {
		return s, nil
	}
	s.Begun, s.Tail = s.Now, s.Now.Add(old.Tail)
	calls := UnitLog{Total: old.Sequence, Cells: cells(&old, old.Windows, old.Granted)}
	s.Units = append(s.Units, calls)
	for _, u := range old.Units {
		s.Units = append(s.Units, UnitLog{Name: u.Name, Total: u.Sequence, Cells: cells(&old, u.Windows, u.Granted)})
	}
	for _, f := range old.Flows {
		s.Flows = append(s.Flows, ActiveFlow{f.ID, f.Weight, f.Share})
	}
	return s, nil
}

// cells finds them by halving time.
func cells(s *fair.State, windows []fair.Window, granted func(from, to time.Duration) int64) (all []Cell) {
	var find func(from, to time.Duration)
	find = func(from, to time.Duration) {
		n, middle := granted(from, to), from+(to-from)/2
		if n > 0 && to-from <= time.Microsecond {
			all = append(all, Cell{s.At.Add(to.Truncate(time.Microsecond)), int(n)})
		} else if n > 0 {
			find(from, middle)
			find(middle, to)
		}
	}
	if len(windows) > 0 {
		find(-windows[0].Per, s.Tail+time.Microsecond)
	}
	return all
}
