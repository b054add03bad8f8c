package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Ceiling is what the log of a flow holds. A flow has a log while it has a
// ceiling or a pause, and for about an hour longer.
type Ceiling struct {
	Flow string // its id

	// Windows are those of the ceiling that holds, from the longest to the
	// shortest. A guard has made them longer. There are none if the flow was only
	// paused.
	Windows []Window

	// Quota is the stored one, that takes the place of the given ones. The zero
	// value: none is stored.
	Quota engine.Quota

	Next   time.Duration // until the ceiling has room for one more permit, and no pause of the flow is left
	Paused time.Duration // how much longer the flow is paused alone
}

// WithCeilings lets [Inspect] read the logs of these flows, those that have one.
// Without an id it reads the logs of all flows: to find them, it goes through
// all keys of the server, as SCAN does. The logs are read after the queue, some
// at a time, so a busy queue moves on meanwhile.
func WithCeilings(flows ...string) InspectOption {
	return func(i *inspection) { i.ceilings, i.flows = true, flows }
}

// logsAtOnce is how many logs one question reads, and of how many keys one looks.
const (
	logsAtOnce = 100
	keysAtOnce = 1000
)

func (f *fair) inspectLogs(ctx context.Context, s *State, flows []string) (all []Ceiling, err error) {
	if len(flows) == 0 {
		if flows, err = f.scanLogs(ctx); err != nil {
			return nil, logError(f.logKey("*"), err)
		}
	}
	flows = slices.Compact(slices.Sorted(slices.Values(flows)))
	for part := range slices.Chunk(flows, logsAtOnce) {
		logs := make([]*redis.ZSliceCmd, len(part))
		_, _ = f.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, flow := range part {
				logs[i] = pipe.ZRangeWithScores(ctx, f.logKey(flow), 0, -1)
			}
			return nil
		})
		for i, log := range logs {
			members, err := log.Result()
			c := Ceiling{Flow: part[i]}
			if err == nil {
				err = c.read(members, s)
			}
			if err != nil {
				return nil, logError(f.logKey(part[i]), err)
			}
			if len(members) > 0 {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func logError(key string, err error) error {
	var refusal redis.Error
	switch {
	case errors.Is(err, errDamaged), errors.As(err, &refusal) && blamesState(refusal.Error()):
		return fmt.Errorf("%w: %q: %w", engine.ErrState, key, err)
	case refusal == nil:
		return fmt.Errorf("%w: %w", engine.ErrUnreachable, err)
	}
	return err
}

// scanLogs finds the flows that have a log, on the server that has the queue.
func (f *fair) scanLogs(ctx context.Context) (flows []string, err error) {
	var node redis.Cmdable = f.client
	switch client := f.client.(type) {
	case *redis.ClusterClient:
		node, err = client.MasterForKey(ctx, f.key)
	case *redis.Ring:
		node, err = client.GetShardClientForKey(f.key)
	}
	if err != nil {
		return nil, err
	}
	keys := node.Scan(ctx, 0, naming.Pattern(f.logKey(""))+"?*", keysAtOnce).Iterator()
	for keys.Next(ctx) {
		flows = append(flows, strings.TrimPrefix(keys.Val(), f.logKey("")))
	}
	return flows, keys.Err()
}

// log is the log of a flow, member by member.
type log struct {
	generation   string
	given, noted string // what it says of the ceiling that was given, and of the stored one
	paused       int64
	pausedIn     string // the generation that was paused
	slots        []int64
	totals       []int64
}

// readLog knows the members: see lua/fair/ceiling.lua.
func readLog(members []redis.Z) (l log, err error) {
	for _, z := range members {
		member, _ := z.Member.(string)
		_, value, _ := strings.Cut(member, " ")
		switch z.Score {
		case -4:
			l.given = value
		case -3:
			l.noted = value
		case -2:
			upto, generation, _ := strings.Cut(value, " ")
			l.pausedIn = generation
			l.paused, err = strconv.ParseInt(upto, 10, 64)
		case -1:
			l.generation, _, _ = strings.Cut(value, " ")
		default:
			var slot int64
			slot, err = strconv.ParseInt(member, 10, 64)
			l.slots, l.totals = append(l.slots, slot), append(l.totals, int64(z.Score))
		}
		if err != nil {
			return log{}, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	return l, nil
}

// read tells what a log says at the moment of the state. One of another
// generation counts nothing.
func (c *Ceiling) read(members []redis.Z, s *State) error {
	l, err := readLog(members)
	if err != nil {
		return err
	}
	words := l.given
	if l.noted != "" {
		text := ""
		words, text, _ = strings.Cut(l.noted, " ")
		c.Quota, err = quotatext.ParseOne(text)
	}
	var windows []window
	if words != "" && err == nil {
		windows, err = parseWindows(words)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	c.Windows = tellWindows(windows)
	if !s.Exists {
		return nil
	}
	if l.pausedIn != s.Generation {
		l.paused = 0
	}
	if l.generation != s.Generation {
		l.slots, l.totals = nil, nil
	}
	c.count(l, s.news)
	return nil
}

// count tells what is held, and from when on there is room.
func (c *Ceiling) count(l log, n *engine.News) {
	if l.paused > n.Clock {
		c.Paused = n.Until(l.paused)
	}
	room, total, gone := l.paused, int64(0), int64(0)
	if len(l.totals) > 0 {
		total = l.totals[len(l.totals)-1]
	}
	for at, slot := range l.slots {
		if slot <= n.Clock {
			gone = l.totals[at]
		}
	}
	for i := range c.Windows {
		w := &c.Windows[i]
		w.Held = gone
		for at, slot := range l.slots {
			if slot+w.Per.Microseconds() <= n.Clock {
				w.Held = gone - l.totals[at]
			}
		}
		if before := total - int64(w.Permits); before >= 0 { // they have to leave for one more
			first := sort.Search(len(l.totals), func(at int) bool { return l.totals[at] > before })
			room = max(room, l.slots[first]+w.Per.Microseconds())
		}
	}
	if room > n.Clock {
		c.Next = n.Until(room)
	}
}
