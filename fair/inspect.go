package fair

import (
	"context"
	"errors"
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
	Void   time.Time     // after a requeue or reset: older turns that come later are void; zero: none are
	Paused time.Duration // how much longer it is paused
	Tail   time.Time     // when the newest slot comes, zero if no turn counts
	Units  []UnitLog     // calls first, whose name is "", then further units by name
	Flows  []Flow        // the active flows
	Stored string        // the stored quotas as text, "" for none
}

// UnitLog is what was granted of a unit, as far as it may still count.
type UnitLog struct {
	Name    string
	Total   int64  // all that was granted
	Missing bool   // its key is missing: what was granted counts at the newest slot
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

// inspectWithin is for how long Redis is asked at most.
const inspectWithin = 10 * time.Second

// Inspect reads the keys of a queue, and changes nothing. It returns nil if there is
// no queue, and an error that matches [engine.ErrState] if a key cannot be read. It
// reads in three steps, so turns that are granted meanwhile may be told in part.
func Inspect(ctx context.Context, rdb redis.UniversalClient, name string, opts ...InspectOption) (*State, error) {
	prefix := defaultPrefix
	for _, opt := range opts {
		opt(&prefix)
	}
	e, err := New(engine.Config{Client: rdb, Name: name, Prefix: &prefix})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	i := inspection{queue: e.(*queue)}
	i.reply, err = i.ask(ctx, question{script: lookScript, args: nothing})
	if err != nil || i.text == "" {
		return nil, err
	}
	state, err := i.read(ctx)
	if err != nil {
		return nil, i.explain(lua.Explain(ctx, err))
	}
	return state, nil
}

// inspection is a queue of which one has the head.
type inspection struct {
	*queue
	*reply
}

func (i *inspection) read(ctx context.Context) (*State, error) {
	var cells []*redis.ZSliceCmd
	var flows *redis.ZSliceCmd
	var stored *redis.StringCmd
	_, err := i.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range i.logKeys(i.head.names) {
			cells = append(cells, p.ZRangeWithScores(ctx, key, 0, -1))
		}
		flows, stored = p.ZRangeWithScores(ctx, i.flowsKey(), 0, -1), p.Get(ctx, i.quotaKey())
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // no quotas are stored
		return nil, err
	}
	s := &State{
		Now: time.UnixMicro(i.news.Now), Begun: time.UnixMicro(i.head.id),
		Paused: i.news.Paused, Stored: stored.Val(),
	}
	if i.head.void > 0 {
		s.Void = i.comes(i.head.void)
	}
	if i.head.tail > 0 {
		s.Tail = i.comes(i.head.tail)
	}
	names := strings.Split(i.head.names, ",")
	names[0] = "" // calls
	for u, name := range names {
		log := UnitLog{Name: name, Total: i.head.totals[u], Cells: i.cells(cells[u].Val())}
		log.Missing = log.Total > 0 && len(cells[u].Val()) == 0
		s.Units = append(s.Units, log)
	}
	s.Flows, err = i.flows(ctx, flows.Val())
	return s, err
}

// comes is when a slot comes. What came before a pause that still lasts has come.
func (i *inspection) comes(slot int64) time.Time {
	if slot < i.head.stoodAt && i.news.Paused > 0 {
		return time.UnixMicro(i.news.Now - (i.head.stoodAt - slot))
	}
	return time.UnixMicro(slot + i.head.offset)
}

// cells are those of a log, without its base.
func (i *inspection) cells(all []redis.Z) (cells []Cell) {
	for at := 1; at < len(all); at++ {
		slot, _ := strconv.ParseInt(all[at].Member.(string), 10, 64)
		cells = append(cells, Cell{i.comes(slot), int(all[at].Score - all[at-1].Score)})
	}
	return cells
}

func (i *inspection) flows(ctx context.Context, active []redis.Z) (flows []Flow, err error) {
	now := time.UnixMicro(i.news.Now)
	for _, z := range active {
		if i.comes(int64(z.Score)).Before(now) {
			continue
		}
		weight, id, _ := strings.Cut(z.Member.(string), " ")
		held, err := i.client.ZRangeWithScores(ctx, i.flowKey(id), 0, -1).Result()
		if err != nil {
			return nil, err
		}
		f := Flow{ID: id}
		f.Weight, _ = strconv.Atoi(weight)
		for _, c := range i.cells(held) {
			if c.At.After(now) {
				f.Ahead += c.Permits
			}
		}
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(a, b Flow) int { return strings.Compare(a.ID, b.ID) })
	return flows, nil
}
