// Package picture reads of a queue what a person wants to see: how it stands, the
// turns ahead, and what is unusual.
package picture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Queue is one queue at one moment. It is what `fairlimit serve` answers with,
// and what `fairlimit look -json` prints. Times are milliseconds from that
// moment on. Without quotas nobody knows what is available.
type Queue struct {
	Name      string   `json:"name"`
	At        int64    `json:"at_ms"`    // the moment since 1970, by the server's clock unless it is idle
	Idle      bool     `json:"idle"`     // nobody uses the queue: all of the quota is to be had
	Requeued  bool     `json:"requeued"` // a moment ago: the figures are without whoever asks again
	Queued    int      `json:"queued"`
	Available *int     `json:"available"` // nil if that is unknown
	Next      float64  `json:"next_ms"`   // until one more permit would come, at the earliest
	Tail      float64  `json:"tail_ms"`   // until the newest slot comes
	Paused    float64  `json:"paused_ms"`
	Quotas    []string `json:"quotas"` // the stored ones, else those given
	Stored    bool     `json:"quotas_stored"`
	Notes     []string `json:"notes"` // what is unusual
	Units     []Unit   `json:"units,omitempty"`
	Flows     []Flow   `json:"flows"`
	Slots     []Slot   `json:"slots"` // those of the calls that still count, the oldest first
}

// Unit is what a queue counts besides calls.
type Unit struct {
	Name      string   `json:"unit"`
	Quotas    []string `json:"quotas"`
	Available *int     `json:"available"`
	Queued    int      `json:"queued"`
}

// Flow is a flow that uses the queue.
type Flow struct {
	ID     string `json:"id"`
	Weight int    `json:"weight"`
	Ahead  int    `json:"ahead"` // permits granted ahead
}

// Slot is a moment at which permits count. One that has gone is before 0.
type Slot struct {
	At      float64 `json:"at_ms"`
	Permits int     `json:"permits"`
}

// Source is where a queue is read.
type Source struct {
	Redis        redis.UniversalClient
	Prefix, Name string
	Queue        *fairlimit.Queue // goes by stored quotas

	// Those that hold where none are stored, if any.
	Calls []engine.Quota
	Units []engine.Unit
}

// Look changes nothing. If what is stored is no quota, the error matches
// [fairlimit.ErrState], and the picture is without what follows from quotas.
func (s Source) Look(ctx context.Context) (Queue, error) {
	status, err := s.Queue.Status(ctx)
	if err != nil && !errors.Is(err, fairlimit.ErrState) {
		return Queue{}, err
	}
	state, failed := s.inspect(ctx)
	if failed != nil {
		return Queue{}, failed
	}
	calls, units := s.Calls, s.Units
	if state.Stored != "" {
		var unread error
		if calls, units, unread = quotatext.ParseAll(state.Stored); unread != nil {
			err = fmt.Errorf("%w: stored quotas: %w: store others with fairlimit quota, or forget them",
				fairlimit.ErrState, unread)
		}
	}
	requeued := state.Void.After(state.Now) && state.Now.Sub(state.Begun) < engine.Within
	q := Queue{
		Name: s.Name, At: state.Now.UnixMilli(), Idle: state.Begun.IsZero(), Requeued: requeued,
		Queued: status.Queued, Available: known(status.Available, calls), Next: milliseconds(status.Delay),
		Tail: milliseconds(max(0, state.Tail.Sub(state.Now))), Paused: milliseconds(state.Paused),
		Quotas: each(calls, quotatext.Format), Stored: state.Stored != "", Notes: notes(state, calls, requeued),
		Flows: each(state.Flows, func(f fair.Flow) Flow { return Flow(f) }), Slots: []Slot{},
	}
	if q.Idle && s.Redis.PTTL(ctx, s.key()+":calls").Val() > time.Second { // both expire at once
		q.Idle = false
		q.Notes = append(q.Notes, "the head is missing: Redis has lost it, and who was told of turns counts them again")
	}
	if len(state.Units) > 0 {
		q.Slots = each(state.Units[0].Cells, func(c fair.Cell) Slot {
			return Slot{milliseconds(c.At.Sub(state.Now)), c.Permits}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(status.Units)) {
		var quotas []engine.Quota
		if i := slices.IndexFunc(units, func(u engine.Unit) bool { return u.Name == name }); i >= 0 {
			quotas = units[i].Quotas
		}
		u := status.Units[name]
		q.Units = append(q.Units, Unit{name, each(quotas, quotatext.Format), known(u.Available, quotas), u.Queued})
	}
	return q, err
}

func (s Source) key() string { return s.Prefix + "{" + s.Name + "}" }

// inspect is [fair.Inspect], which knows of no stored quotas without a queue.
func (s Source) inspect(ctx context.Context) (*fair.State, error) {
	state, err := fair.Inspect(ctx, s.Redis, s.Name, fair.WithPrefix(s.Prefix))
	if err == nil && state == nil {
		state = &fair.State{Now: time.Now()}
		state.Stored, err = s.Redis.Get(ctx, s.key()+":quota").Result()
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return state, err
}

// known is what is available, nil if there is no quota from which that follows.
func known(available int, quotas []engine.Quota) *int {
	if len(quotas) == 0 {
		return nil
	}
	return &available
}

// notes are what is unusual, in plain words.
func notes(s *fair.State, quotas []engine.Quota, requeued bool) []string {
	all := []string{}
	if len(s.Units) == 0 || requeued {
		return all
	}
	if ago := s.Now.Sub(s.Begun); s.Void.After(s.Begun) && ago < time.Minute {
		all = append(all, fmt.Sprintf("requeued %v ago: whoever waited asked again, in order", ago.Round(time.Second)))
	}
	for _, u := range s.Units {
		if u.Missing {
			all = append(all, fmt.Sprintf("the log of %s is missing: "+
				"Redis has lost it, and its turns count at the newest slot", cmp.Or(u.Name, "calls")))
		}
	}
	if !slices.ContainsFunc(s.Units, func(u fair.UnitLog) bool { return u.Total > 0 }) {
		all = append(all, "nothing was granted since the queue began or was reset: is the name spelt right?")
	}
	for _, q := range quotas { // until Void turns went by those of before
		since := slices.MaxFunc([]time.Time{s.Void, s.Now.Add(-q.Per)}, time.Time.Compare)
		// A log that is thinned shows some permits later than they go.
		if most := mostWithin(s.Units[0].Cells, q.Per-q.Per/16, since); most > q.Permits {
			all = append(all, fmt.Sprintf("%d permits go within %s, the quota allows %d: a limiter goes by another quota",
				most, quotatext.Duration(q.Per), q.Permits))
		}
	}
	return all
}

// mostWithin is what the fullest window of a length holds after a moment.
func mostWithin(cells []fair.Cell, length time.Duration, since time.Time) (most int) {
	for len(cells) > 0 && !cells[0].At.After(since) {
		cells = cells[1:]
	}
	held, oldest := 0, 0
	for _, c := range cells {
		held += c.Permits
		for ; !cells[oldest].At.After(c.At.Add(-length)); oldest++ {
			held -= cells[oldest].Permits
		}
		most = max(most, held)
	}
	return most
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// each makes something of every element. It never returns nil, which JSON shows.
func each[A, B any](all []A, of func(A) B) []B {
	made := make([]B, len(all))
	for i, a := range all {
		made[i] = of(a)
	}
	return made
}
