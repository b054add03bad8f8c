package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const defaultPrefix = "fairlimit:"

// queue is the engine of one limiter.
type queue struct {
	client redis.UniversalClient
	key    string
	stored bool           // stored quotas take the place of the given ones
	opened bool           // no quota was given: the units are those that the queue has
	guard  *time.Duration // nil: a part of the shortest Per
	given  *rules
	rules  atomic.Pointer[rules] // those that hold, as far as is known
	told   told
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
	q := &queue{
		client: cfg.Client, key: keyOf(prefix, cfg.Name), stored: cfg.Stored, guard: cfg.Guard, given: given,
		opened: len(quotas) == 0 && len(cfg.Units) == 0,
	}
	q.rules.Store(given)
	return q, nil
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
	return q.given.fits(n, amounts)
}

func (q *queue) Units() []string { return unitNames(q.rules.Load().units) }

func (q *queue) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	return q.take(ctx, requests, &flow{})
}

func (f *flow) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	return f.queue.take(ctx, requests, f)
}

// take asks for those requests that fit, and refuses the others.
func (q *queue) take(
	ctx context.Context, requests []engine.Request, f *flow,
) (answers []engine.Answer, news engine.News, err error) {
	err = q.again(func(r *rules) error {
		answers, news, err = q.takeBy(ctx, r, requests, f)
		return err
	})
	return answers, news, err
}

func (q *queue) takeBy(
	ctx context.Context, r *rules, requests []engine.Request, f *flow,
) ([]engine.Answer, engine.News, error) {
	fitting, problems := r.fitting(requests)
	if problems != nil && q.stored { // others may be stored, which they fit
		if err := q.readStored(ctx, r); err != nil {
			return nil, engine.News{}, err
		}
	}
	if len(fitting) == 0 {
		return problems, engine.News{}, nil
	}
	args := func(r *rules, header []any) []any { return takeArgs(header, r, fitting, f) }
	reply, err := q.ask(ctx, r, question{script: takeScript, args: args, obeys: true, flow: f.id})
	if err != nil {
		return nil, engine.News{}, err
	}
	answers, err := reply.answers(fitting, r)
	for i, problem := range problems {
		if problem.Err != nil {
			answers = slices.Insert(answers, i, problem)
		}
	}
	return answers, reply.news, err
}

// takeArgs appends what lua/fair/take.lua is told: the windows, the flow, and runs
// of equal requests.
func takeArgs(args []any, r *rules, requests []engine.Request, f *flow) []any {
	args = r.windowArgs(args)
	if f.id == "" {
		args = append(args, "", 0, 0, 0)
	} else {
		args = append(args, f.member(), r.flow.alone, r.flow.beside, r.flow.apart)
	}
	for len(requests) > 0 {
		first, count := &requests[0], countEqual(requests)
		wasVoid := 0
		if first.WasVoid {
			wasVoid = 1
		}
		longest := max(0, min(first.MaxWait, longestWait)).Microseconds()
		args = append(args, count, longest, wasVoid, r.cost(first.N, first.Amounts))
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
	return q.giveBack(ctx, returns, "")
}

func (f *flow) GiveBack(ctx context.Context, returns []engine.Return) error {
	return f.queue.giveBack(ctx, returns, f.id)
}

func (q *queue) giveBack(ctx context.Context, returns []engine.Return, flow string) error {
	args := func(r *rules, args []any) []any {
		for _, x := range returns {
			cost := 0
			if x.IsAll() {
				cost = x.Turn.Cost
			}
			args = r.inOrder(append(args, x.Turn.Queue, x.Turn.Slot, cost), x.N, x.Amounts)
		}
		return args
	}
	return q.again(func(r *rules) error {
		_, err := q.ask(ctx, r, question{script: returnScript, args: args, flow: flow})
		return err
	})
}

func (q *queue) Status(ctx context.Context) (status engine.Status, err error) {
	a := question{script: statusScript, args: (*rules).windowArgs, obeys: true, reads: true}
	err = q.again(func(r *rules) error {
		reply, err := q.ask(ctx, r, a)
		if err == nil {
			status, err = reply.status(r)
		}
		return err
	})
	return status, err
}

// Reset also clears keys that hold something else, and the logs of other units.
func (q *queue) Reset(ctx context.Context) (engine.News, error) {
	const forget = 1
	news, err := q.steer(ctx, requeueScript, engine.Within.Microseconds(), forget)
	var other *unitsError
	names := q.rules.Load().names
	switch {
	case errors.As(err, &other):
		names = other.names
	case !errors.Is(err, engine.ErrState):
		return news, err
	}
	if err := q.client.Del(ctx, append(logKeys(q.key, names), q.key)...).Err(); err != nil {
		return engine.News{}, lua.Explain(ctx, err)
	}
	return q.steer(ctx, requeueScript, engine.Within.Microseconds(), forget)
}
