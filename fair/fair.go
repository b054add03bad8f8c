package fair

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

const defaultPrefix = "fairlimit:"

// queue is the engine of one limiter, for the callers of one flow.
type queue struct {
	*shared
	flow flow // zero for callers without one
}

// shared is what all flows of a limiter share.
type shared struct {
	client redis.UniversalClient
	key    string
	stored bool           // stored quotas take the place of the given ones
	opened bool           // no quota was given: the units are those that the queue has
	guard  *time.Duration // nil: a part of the shortest Per
	given  *rules
	rules  atomic.Pointer[rules] // those that hold, as far as is known
	told   memory
}

var (
	_ engine.Queue   = (*queue)(nil)
	_ engine.Builder = New
)

// New builds the engine for one limiter. It is an [engine.Builder] and does no
// I/O. The package documentation names the keys.
//
// Without a guard the engine takes a twentieth of the shortest Per, 250 ms at
// most.
//
// Errors match [engine.ErrUnsupported]: a Per (with the guard) of more than ten
// years, more than 10⁹ Permits, more than 8 windows of one unit (each quota is
// one, each Burst another), and a name or prefix that would spread the keys over
// the slots of a Cluster.
func New(cfg engine.Config) (engine.Engine, error) {
	prefix := defaultPrefix
	if cfg.Prefix != nil {
		prefix = *cfg.Prefix
	}
	if err := checkTag(prefix, cfg.Name); err != nil {
		return nil, err
	}
	var quotas []engine.Quota
	if cfg.Quota != (engine.Quota{}) || len(cfg.Extra) > 0 {
		quotas = append([]engine.Quota{cfg.Quota}, cfg.Extra...)
	}
	given, err := newRules(quotas, cfg.Units, cfg.Guard)
	if err != nil {
		return nil, err
	}
	s := &shared{
		client: cfg.Client, key: keyOf(prefix, cfg.Name), stored: cfg.Stored, guard: cfg.Guard, given: given,
		opened: len(quotas) == 0 && len(cfg.Units) == 0,
	}
	s.rules.Store(given)
	return &queue{shared: s}, nil
}

func keyOf(prefix, name string) string { return prefix + "{" + name + "}" }

// checkTag returns an error if a Cluster would keep the keys in different slots.
// It takes what is between the first { and the next }, or all of the key if that
// is nothing: see "Hash tags" in the Redis Cluster specification.
func checkTag(prefix, name string) error {
	_, behind, _ := strings.Cut(keyOf(prefix, name), "{")
	switch {
	case !strings.HasPrefix(behind, "}"):
		return nil
	case strings.Contains(prefix, "{"):
		return fmt.Errorf("%w: the prefix %q: its {} would spread the keys over slots", engine.ErrUnsupported, prefix)
	}
	return fmt.Errorf("%w: the name %q begins with }, which would spread the keys over slots",
		engine.ErrUnsupported, name)
}

// Fits says nothing where other quotas may be stored meanwhile.
func (q *queue) Fits(n int, amounts engine.Amounts) error {
	if q.stored {
		return nil
	}
	if len(q.given.calls) == 0 {
		return fmt.Errorf("%w: to take permits, give Open WithStoredQuota, or use NewQueue", engine.ErrNoQuota)
	}
	return q.given.fits(n, amounts)
}

func (q *queue) Units() []string { return unitNames(q.rules.Load().units) }

func (q *queue) Flow(id string, weight int) engine.Queue { return &queue{q.shared, flow{id, weight}} }

// Take asks for those requests that fit, and refuses the others.
func (q *queue) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	var answers []engine.Answer
	var fitting []engine.Request
	args := func(r *rules, args []any) []any {
		fitting, answers = r.fitting(requests)
		return q.takeArgs(args, r, fitting)
	}
	reply, err := q.ask(ctx, question{takeScript, args, true})
	if err != nil {
		return nil, engine.News{}, err
	}
	decided, err := reply.decisions(fitting)
	if err != nil {
		return nil, engine.News{}, err
	}
	for i := range answers {
		if answers[i].Err == nil {
			answers[i], decided = decided[0], decided[1:]
		}
	}
	return answers, reply.news, nil
}

// takeArgs appends what lua/fair/take.lua is told: the windows, the flow, and runs
// of equal requests.
func (q *queue) takeArgs(args []any, r *rules, requests []engine.Request) []any {
	args = q.flow.args(r.windowArgs(args), r)
	for len(requests) > 0 {
		first, count := &requests[0], countEqual(requests)
		longest := max(0, min(first.MaxWait, longestWait)).Microseconds()
		args = append(args, count, longest, first.WasVoid, r.cost(first.N, first.Amounts))
		args = r.inOrder(args, first.N, first.Amounts)
		requests = requests[count:]
	}
	return args
}

// countEqual is how many requests from the first on are equal.
func countEqual(requests []engine.Request) int {
	count := 1
	for count < len(requests) && requests[count] == requests[0] {
		count++
	}
	return count
}

func (q *queue) GiveBack(ctx context.Context, returns []engine.Return) error {
	_, err := q.ask(ctx, question{script: returnScript, args: func(r *rules, args []any) []any {
		for _, x := range returns {
			cost := 0
			if q.flow.id != "" && x.IsAll() {
				cost = r.cost(x.N, x.Amounts)
			}
			args = r.inOrder(append(args, x.Turn.Queue, x.Turn.Slot, cost), x.N, x.Amounts)
		}
		return args
	}})
	return err
}

func (q *queue) Status(ctx context.Context) (engine.Status, error) {
	reply, err := q.ask(ctx, question{statusScript, (*rules).windowArgs, true})
	if err != nil {
		return engine.Status{}, err
	}
	return reply.status()
}
