// Package fair is the engine that grants turns in order: a reservation queue in one Redis key, whose TTL is the backlog.
//
// A request gets the earliest slot that leaves every window within its quota and lies no earlier than the newest slot still held. The rule is
// that of a sliding window kept over the future: granted slots s₁ ≤ s₂ ≤ … stay; a request for n permits at time t takes the smallest
// x ≥ max(t, last slot) for which, in every window of length T and size N, the permits with slots in (x−T, x] plus n are at most N.
package fair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	defaultPrefix = "fairlimit:"

	// The script counts in microseconds and permits within a double's integers: what it is given stays far below.
	longestPer  = 10 * 365 * 24 * time.Hour
	longestWait = 100 * 365 * 24 * time.Hour
	mostPermits = 1_000_000_000
	mostWindows = 8

	// A generation is a word of at most 8 letters, so that a late return hits a later queue of the same name once in 2·10¹².
	generations = 1 << 41

	// How much one run of the script is asked to do, so that it holds up the server for less than a millisecond.
	mostRuns  = 100
	mostGiven = 200 // over all windows
)

var fairScript = lua.Assemble("fair/queue")

type fair struct {
	client  redis.UniversalClient
	script  *lua.Script
	key     string
	windows []window
	quotas  string // the windows as a word
	most    int    // permits that fit every window
	memory  memory

	replicas int // that must have what is granted
}

var _ engine.Engine = (*fair)(nil)

// New builds the engine for one limiter; it is an [engine.Builder]. It keeps one key, <prefix>{name}.
//
// Errors match [engine.ErrUnsupported]: a Per (with the guard) of more than ten years, more than 10⁹ Permits, a Burst whose window rounds to
// less than a microsecond, more than 8 windows (each quota is one, each Burst another).
func New(cfg engine.Config) (engine.Engine, error) {
	windows, err := windowsOf(cfg)
	if err != nil {
		return nil, err
	}
	prefix := defaultPrefix
	if cfg.Prefix != nil {
		prefix = *cfg.Prefix
	}
	most := slices.MinFunc(windows, func(a, b window) int { return a.permits - b.permits }).permits
	return &fair{
		client: cfg.Client, script: fairScript, key: prefix + "{" + cfg.Name + "}", windows: windows, quotas: word(windows), most: most,
		replicas: cfg.Replicas,
	}, nil
}

func (f *fair) Queues() bool { return true }

func (f *fair) Fits(n int) error {
	if n > f.most {
		return fmt.Errorf("%w: %d asked for, at most %d fit", engine.ErrExceedsQuota, n, f.most)
	}
	return nil
}

func (f *fair) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	args := f.args("take")
	for rest, runs := requests, 0; len(rest) > 0 && runs < mostRuns; runs++ {
		permits, longest, count := run(rest)
		args = append(args, permits, longest, count)
		rest = rest[max(count, -count):]
	}
	reply, err := f.ask(ctx, f.script.Confirmed(f.replicas), args)
	if err != nil && !errors.Is(err, engine.ErrNotReplicated) {
		return nil, err
	}
	told, left, answers, problem := decode(reply, requests)
	if problem == nil && told.sequence > 0 {
		f.memory.learn(told, left)
	}
	return answers, cmp.Or(problem, err)
}

// run is as many requests as the script can take for one: all for as many permits as the first, none that waits for less long. The count is negative
// if some wait for longer.
func run(requests []engine.Request) (permits int, longest int64, count int) {
	wait := func(r engine.Request) int64 { return min(r.MaxWait, longestWait).Microseconds() }
	permits, longest = requests[0].N, wait(requests[0])
	mixed := false
	for _, r := range requests {
		if r.N != permits || wait(r) < longest {
			break
		}
		mixed = mixed || wait(r) > longest
		count++
	}
	if mixed {
		count = -count
	}
	return permits, longest, count
}

func (f *fair) GiveBack(ctx context.Context, grants []engine.Grant) error {
	return engine.GiveBackInParts(grants, mostGiven/len(f.windows), func(part []engine.Grant) error {
		args := f.args("back")
		for _, g := range part {
			unused := 0
			if g.Unused {
				unused = 1
			}
			args = append(args, g.ID, g.At, g.N, unused)
		}
		_, err := f.ask(ctx, f.script, args)
		return err
	})
}

func (f *fair) Status(ctx context.Context) (engine.Status, error) {
	reply, err := f.ask(ctx, f.script, f.args("status"))
	if err != nil {
		return engine.Status{}, err
	}
	numbers, err := integers(reply, 0)
	if err != nil {
		return engine.Status{}, err
	}
	if len(numbers) != 3 {
		return engine.Status{}, unexpected(reply)
	}
	return engine.Status{Available: int(numbers[0]), Queued: int(numbers[1]), Delay: microseconds(numbers[2])}, nil
}

func (f *fair) Reset(ctx context.Context) error {
	before := f.memory.now()
	_, err := f.ask(ctx, f.script, f.args("reset"))
	if err == nil {
		f.memory.forget(before)
	}
	return err
}

// args begins the arguments of the script; see lua/fair.lua.
func (f *fair) args(op string) []any {
	state, when := f.memory.recall()
	return append(make([]any, 0, 8), op, strconv.FormatUint(rand.Uint64N(generations), 36), state, when, f.quotas)
}

func (f *fair) ask(ctx context.Context, script *lua.Script, args []any) (any, error) {
	reply, err := script.Run(ctx, f.client, []string{f.key}, args...)
	if redis.HasErrorPrefix(err, "STATE") || redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, fmt.Errorf("%w: %q: %w", engine.ErrState, f.key, err)
	}
	if redis.HasErrorPrefix(err, "FULL") {
		return nil, fmt.Errorf("%w: %q: %w", engine.ErrFull, f.key, err)
	}
	return reply, err
}
