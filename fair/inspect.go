package fair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/internal/whereis"
	"github.com/fairlimit/fairlimit/lua"
)

// State is a queue as Redis holds it at one moment. The zero value is a queue
// that is not there. Durations count from that moment on, in real time. They
// are 0 if there is nothing to wait for.
type State struct {
	At     time.Time     // the moment, by the server's clock
	Exists bool          // whether there is a key; else only At, Quotas and Text can be set
	TTL    time.Duration // how long the key has to live
	Bytes  int           // of the key's value

	Generation string // 8 letters: the life of this state
	Epoch      string // 8 letters: the primary that wrote it last
	Sequence   int64  // permits granted in this generation, with those given back

	// Windows are those of the last caller, from the longest to the shortest. Its
	// guard has made them longer, and a Burst is a window of its own. There are
	// none if only callers without quotas have paused or reset the queue.
	Windows []Window

	// Obeyed is whether the last caller went by the quotas that are stored.
	Obeyed bool

	// Mixed is how much longer permits count that may have been granted to
	// callers with other windows. It can also follow from lost turns that count
	// again.
	Mixed time.Duration

	// InUse are the windows of different callers, while it is Mixed: each once, in
	// the order in which they were seen. Seven short ones fit, or two long ones.
	InUse [][]Window

	Next       time.Duration // until one more permit would have a slot, for a caller with Windows
	Available  int64         // permits that such a caller could take at once, 0 without Windows
	Backlog    int64         // permits that are granted ahead
	Tail       time.Duration // until the newest slot comes
	Cells      int           // how many cells hold what was granted
	CellsAhead int           // how many of them lie ahead

	Paused time.Duration // how much longer the queue's clock stands still
	Slowed time.Duration // how much longer it runs slower, because a quota became narrower
	Pace   float64       // how many real seconds a second of the queue's clock takes until then at most, 0 if not Slowed
	Offset time.Duration // how far the queue's clock is ahead of the server's; below 0 after a pause

	Full  time.Duration // how much longer the queue counts as full because turns were lost
	Reset time.Duration // how much longer it is known that the queue was reset

	Flows []Flow // that use the queue, in the order in which they came

	// Flowless is whether the newest turn belongs to a caller without a flow,
	// beside Flows.
	Flowless bool

	// Ceilings are of the flows that have a log, in the order of their ids, if
	// [WithCeilings] asks for them.
	Ceilings []Ceiling

	// Epochs are those that have ended, the oldest first. Forgotten says that
	// there were more.
	Epochs    []Epoch
	Forgotten bool

	// Units are what the queue counts besides calls, as the callers have it who
	// count them. One that nobody has counted in this generation is not there.
	Units []Unit

	Quotas     []engine.Quota // the stored quotas, if any
	UnitQuotas []engine.Unit  // those of further units
	Text       string         // as they are stored

	line *line        // nil if nothing that was granted counts
	news *engine.News // nil without a queue
}

// Window is at most Permits in any stretch of Per.
type Window struct {
	Permits int
	Per     time.Duration
	Held    int64 // permits of the last Per that count now, without those ahead
}

// Unit is a unit as its last caller counts it.
type Unit struct {
	Name      string
	Windows   []Window      // as those of a [State]
	Next      time.Duration // until one more would have a slot, in its place in the line
	Available int64         // that could be taken at once
	Backlog   int64         // granted ahead, with debts that lie ahead
	Sequence  int64         // granted in this generation, with what was given back

	line *line // nil if nothing that was granted counts
}

// Flow is a flow that was granted a turn, or asked for one, a short while ago.
type Flow struct {
	ID       string        // 5 letters: the state has a hash of the id only
	Weight   int           // the newest that one of its limiters has
	Limiters int           // how many of them have an entry
	Need     int           // the most permits of one request
	Share    int           // permits that its limiters together may hold ahead
	Ends     time.Duration // when it is forgotten, unless it asks before
}

// Epoch is the time in which one primary wrote the state.
type Epoch struct {
	Name  string // 8 letters
	End   int64  // the sequence at which it ended
	Known int64  // up to which sequence what it granted counts: more than End if that was lost and counts again
}

// InspectOption is an option of [Inspect].
type InspectOption func(*inspection)

type inspection struct {
	engine.Config
	ceilings bool
	flows    []string
}

// WithPrefix is for a queue whose limiters were made with a prefix: see
// [engine.Config].
func WithPrefix(prefix string) InspectOption {
	return func(i *inspection) { i.Prefix = &prefix }
}

// Inspect reads all that Redis holds of a queue. It asks one question, more
// [WithCeilings], needs no quota and changes nothing. So it restores nothing
// that a server has lost.
//
// The error matches [engine.ErrState] if a key holds something else, a state
// that is damaged, or one of another version. What it says then includes what
// to do. If only the stored text is no quota, the State tells all the rest.
func Inspect(ctx context.Context, rdb redis.UniversalClient, name string, opts ...InspectOption) (State, error) {
	i := inspection{Config: engine.Config{Client: rdb, Name: name}}
	for _, o := range opts {
		o(&i)
	}
	e, err := New(i.Config)
	if err != nil {
		return State{}, naming.Of(name, err)
	}
	f := e.(*fair)
	state, err := f.inspect(ctx, inspectScript)
	if i.ceilings && !state.At.IsZero() {
		var problem error
		state.Ceilings, problem = f.inspectLogs(ctx, &state, i.flows)
		err = cmp.Or(problem, err)
	}
	return state, naming.Of(name, whereis.Of(rdb, err, false))
}

var inspectScript = lua.Assemble("fair", "inspect")

func (f *fair) inspect(ctx context.Context, script *lua.Script) (State, error) {
	keys := []string{f.key}
	if f.sharesSlot() == nil {
		keys = append(keys, f.quotaKey(), f.unitsKey())
	}
	r, err := f.askKeys(ctx, script, keys, nil)
	if err != nil {
		return State{}, err
	}
	stored, err := decodeStored(r.said)
	if err != nil {
		return State{}, err
	}
	s := State{At: time.UnixMicro(stored.server), Text: stored.quotas}
	var unreadable error
	if s.Quotas, s.UnitQuotas, err = quotatext.ParseAll(s.Text); err != nil {
		unreadable = &unreadableQuotas{f.quotaKey(), err}
	}
	if stored.left != -2 {
		if err = f.tellOf(&s, stored); err != nil {
			return State{}, err
		}
	}
	return s, unreadable
}

// texts are all that is stored of a queue.
type texts struct {
	server, left         int64 // the server's time, and ms that the queue has to live
	state, quotas, units string
}

// decodeStored is the one place that knows the reply of lua/fair/inspect.lua.
func decodeStored(said any) (texts, error) {
	elements, _ := said.([]any)
	if len(elements) != 5 {
		return texts{}, misread(said, fmt.Errorf("%d elements", len(elements)))
	}
	numbers, err := integers(elements[:2])
	state, isState := elements[2].(string)
	quotas, isQuotas := elements[3].(string)
	units, isUnits := elements[4].(string)
	if err != nil || !isState || !isQuotas || !isUnits {
		return texts{}, misread(said, errors.New("want two numbers and three texts"))
	}
	return texts{numbers[0], numbers[1], state, quotas, units}, nil
}

// tellOf fills in what the texts say.
func (f *fair) tellOf(s *State, t texts) error {
	c, err := readState(t.state)
	if err == nil && t.left == -1 {
		err = errors.New("the key has no TTL")
	}
	if err != nil {
		return fmt.Errorf("%w: %q: %w", engine.ErrState, f.key, err)
	}
	units, err := c.readUnits(t.units)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", engine.ErrState, f.unitsKey(), err)
	}
	s.Exists, s.TTL, s.Bytes = true, time.Duration(t.left)*time.Millisecond, len(t.state)
	s.Obeyed = t.quotas != "" && c.stored == word36(hash(t.quotas), len(notStored))
	c.tell(s, t.server)
	for _, u := range units {
		s.Units = append(s.Units, u.tell(c, s, t.server))
	}
	return nil
}
