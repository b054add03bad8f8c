package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

// State is a queue as its keys hold it. Times are by the server's clock.
type State struct {
	Now    time.Time     // the server's time
	Begun  time.Time     // when the queue began, or was requeued last
	Voided bool          // it was requeued or reset: turns of before that come after Void are void
	Void   time.Time     // up to when turns of before the requeue stand
	Paused time.Duration // how much longer it is paused
	Tail   time.Time     // when the newest slot comes, zero if no turn counts
	TTL    time.Duration // for how long the queue lives
	Units  []UnitLog     // calls first, whose name is "", then further units by name
	Flows  []Flow        // the active flows
	Stored string        // the stored quotas as text, "" for none
}

// UnitLog is what was granted of a unit, as far as it may still count.
type UnitLog struct {
	Name    string
	Total   int64  // the score of the newest cell
	Missing bool   // the key of calls is missing: what was granted counts at the newest slot
	Cells   []Cell // the oldest first
}

// Cell is the permits that count at one slot.
type Cell struct {
	At      time.Time // when the slot comes
	Permits int
}

// Flow is a flow that holds turns, or did so a moment ago.
type Flow struct {
	ID     string
	Weight int
	Ahead  int // permits that it holds ahead
}

// InspectOption changes what [Inspect] reads.
type InspectOption func(*string)

// WithPrefix is the prefix of the limiters' keys: see fairlimit.WithPrefix.
func WithPrefix(p string) InspectOption { return func(prefix *string) { *prefix = p } }

// Inspect reads the keys of a queue, and changes nothing. It returns nil if there is
// no queue, and an error that matches [engine.ErrState] if the head cannot be read.
// It reads in three steps, so turns that are granted meanwhile may be told in part.
func Inspect(ctx context.Context, rdb redis.UniversalClient, name string, opts ...InspectOption) (*State, error) {
	prefix := defaultPrefix
	for _, opt := range opts {
		opt(&prefix)
	}
	key := keyOf(prefix, name)
	h, state, err := inspectHead(ctx, rdb, key)
	if err != nil || state == nil {
		return nil, err
	}
	if err := state.readLogs(ctx, rdb, key, &h); err != nil {
		return nil, explainRead(ctx, key, err)
	}
	if err := state.readFlows(ctx, rdb, key, &h); err != nil {
		return nil, explainRead(ctx, key, err)
	}
	return state, nil
}

func explainRead(ctx context.Context, key string, err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: %q: %w", engine.ErrState, key, err)
	}
	return lua.Explain(ctx, err)
}

// inspectHead reads the head and what it says.
func inspectHead(ctx context.Context, rdb redis.UniversalClient, key string) (h head, _ *State, _ error) {
	var text, stored *redis.StringCmd
	var ttl *redis.DurationCmd
	var now *redis.Cmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		text, ttl, stored = p.Get(ctx, key), p.PTTL(ctx, key), p.Get(ctx, key+":quota")
		now = p.Eval(ctx, "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", []string{key})
		return nil
	})
	switch {
	case errors.Is(text.Err(), redis.Nil):
		return h, nil, nil
	case text.Err() != nil:
		return h, nil, explainRead(ctx, key, text.Err())
	case err != nil && !errors.Is(err, redis.Nil):
		return h, nil, explainRead(ctx, key, err)
	}
	h, ok := parseHead(text.Val())
	if !ok {
		return h, nil, fmt.Errorf("%w: %q is not the head of a queue", engine.ErrState, key)
	}
	micro, err := now.Int64()
	if err != nil {
		return h, nil, explainRead(ctx, key, err)
	}
	h.offset -= max(0, h.last-micro) // the server's clock was set back
	h.last = micro
	state := &State{
		Now: time.UnixMicro(micro), Begun: time.UnixMicro(h.id), Voided: h.void > 0, Void: h.comes(h.void),
		Paused: max(0, micros(h.from+h.offset-micro)), TTL: ttl.Val(), Stored: stored.Val(),
	}
	if h.tail > 0 {
		state.Tail = h.comes(h.tail)
	}
	return h, state, nil
}

// comes is when a slot comes. Those that came before a pause that still lasts have
// come.
func (h *head) comes(slot int64) time.Time {
	if slot < h.from && h.from+h.offset > h.last {
		return time.UnixMicro(h.last - (h.from - slot))
	}
	return time.UnixMicro(slot + h.offset)
}

func (s *State) readLogs(ctx context.Context, rdb redis.UniversalClient, key string, h *head) error {
	names := []string{calls}
	if h.units != unknown {
		names = strings.Split(h.units, ",")
	}
	for i, name := range names {
		cells, err := rdb.ZRangeWithScores(ctx, key+":"+name, 0, -1).Result()
		if err != nil {
			return err
		}
		u := UnitLog{Name: name, Cells: h.cells(cells)}
		if len(cells) > 0 {
			u.Total = int64(cells[len(cells)-1].Score)
		}
		if i == 0 {
			u.Name, u.Total, u.Missing = "", h.total, len(cells) == 0 && h.total > 0
		}
		s.Units = append(s.Units, u)
	}
	return nil
}

// cells are those of a log, without its base.
func (h *head) cells(all []redis.Z) (cells []Cell) {
	for i := 1; i < len(all); i++ {
		slot, _ := strconv.ParseInt(all[i].Member.(string), 10, 64)
		cells = append(cells, Cell{h.comes(slot), int(all[i].Score - all[i-1].Score)})
	}
	return cells
}

func (s *State) readFlows(ctx context.Context, rdb redis.UniversalClient, key string, h *head) error {
	active, err := rdb.ZRangeWithScores(ctx, key+":flows", 0, -1).Result()
	if err != nil {
		return err
	}
	for _, z := range active {
		weight, id, _ := strings.Cut(z.Member.(string), " ")
		if h.comes(int64(z.Score)).Before(s.Now) {
			continue
		}
		held, err := rdb.ZRangeWithScores(ctx, key+":flow:"+id, 0, -1).Result()
		if err != nil {
			return err
		}
		f := Flow{ID: id}
		f.Weight, _ = strconv.Atoi(weight)
		for _, c := range h.cells(held) {
			if c.At.After(s.Now) {
				f.Ahead += c.Permits
			}
		}
		s.Flows = append(s.Flows, f)
	}
	slices.SortFunc(s.Flows, func(a, b Flow) int { return strings.Compare(a.ID, b.ID) })
	return nil
}
