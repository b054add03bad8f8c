package fair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

const (
	defaultPrefix = "fairlimit:"

	// The scripts count in microseconds and permits within a double's
	// integers: what they are given stays far below.
	longestPer  = 10 * 365 * 24 * time.Hour
	longestWait = 100 * 365 * 24 * time.Hour
	mostPermits = 1_000_000_000
	mostWindows = 8

	// How much one run of a script is asked to do, so that it holds up the
	// server for less than a millisecond.
	mostRuns  = 100
	mostGiven = 200 // over all windows
)

// fair is the engine of one limiter.
type fair struct {
	client   redis.UniversalClient
	scripts  scripts
	key      string
	windows  []window
	head     []any // of the arguments of every question; see lua/fair/head.lua
	plain    []any // what a plain state is asked with; see lua/fair/hot.lua
	most     int   // permits that fit every window
	position position

	replicas int // that must have what is granted
}

var _ engine.Engine = (*fair)(nil)

// New builds the engine for one limiter; it is an [engine.Builder]. It keeps
// one key, <prefix>{name}.
//
// Errors match [engine.ErrUnsupported]: a Per (with the guard) of more than
// ten years, more than 10⁹ Permits, a Burst whose window rounds to less than a
// microsecond, more than 8 windows (each quota is one, each Burst another).
func New(cfg engine.Config) (engine.Engine, error) {
	windows, err := windowsOf(cfg)
	if err != nil {
		return nil, err
	}
	prefix := defaultPrefix
	if cfg.Prefix != nil {
		prefix = *cfg.Prefix
	}
	most := slices.MinFunc(windows, func(a, b window) int { return a.Permits - b.Permits }).Permits
	return &fair{
		client: cfg.Client, scripts: allScripts, key: prefix + "{" + cfg.Name + "}", windows: windows, most: most,
		head: []any{"fair3 " + word(windows) + " - "}, plain: plainArgs(windows), replicas: cfg.Replicas,
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
	args, asked := f.takeArgs(requests)
	reply, err := f.ask(ctx, f.scripts.take.Confirmed(f.replicas), args)
	if err != nil && !errors.Is(err, engine.ErrNotReplicated) {
		return nil, err
	}
	o, problem := f.decode(reply, requests[:asked])
	if o.seen.text != "" {
		f.position.learn(o.seen, o.left)
	}
	return o.answers, cmp.Or(problem, err)
}

// takeArgs asks for as many of the requests as one question may.
func (f *fair) takeArgs(requests []engine.Request) (args []any, asked int) {
	args = append(f.args(6), f.plain...)
	for runs := 0; asked < len(requests) && runs < mostRuns; runs++ {
		permits, longest, count := run(requests[asked:])
		args = append(args, permits, longest, count)
		asked += max(count, -count)
	}
	return args, asked
}

// run is as many requests as the script can take for one: all for as many
// permits as the first, none that waits for less long. The count is negative
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
		args := f.args(5 * len(part))
		for _, g := range part {
			unused := 0
			if g.Unused {
				unused = 1
			}
			args = append(args, g.ID, g.At, g.N, g.Made, unused)
		}
		_, err := f.ask(ctx, f.scripts.release, args)
		return err
	})
}

func (f *fair) Status(ctx context.Context) (engine.Status, error) {
	reply, err := f.ask(ctx, f.scripts.status, f.args(0))
	if err != nil {
		return engine.Status{}, err
	}
	elements, _ := reply.([]any)
	numbers, err := integers(elements)
	if err != nil || len(numbers) != 3 {
		return engine.Status{}, fmt.Errorf("%w: the script replied %.200q", engine.ErrOutcomeUnknown, fmt.Sprint(reply))
	}
	return engine.Status{Available: int(numbers[0]), Queued: int(numbers[1]), Delay: microseconds(numbers[2])}, nil
}

func (f *fair) Reset(ctx context.Context) error {
	before := f.position.now()
	_, err := f.ask(ctx, f.scripts.reset, f.args(0))
	if err == nil {
		f.position.forget(before)
	}
	return err
}

// args begins the arguments of a script, and has room for so many more.
func (f *fair) args(more int) []any {
	seen, rest := f.position.recall()
	return append(append(make([]any, 0, 3+more), f.head...), seen, rest)
}

// ask runs a script once. Whatever it stumbles over is in the key.
func (f *fair) ask(ctx context.Context, script *lua.Script, args []any) (any, error) {
	reply, err := script.Run(ctx, f.client, []string{f.key}, args...)
	var refusal redis.Error
	if errors.As(err, &refusal) && blamesState(refusal.Error()) {
		return nil, fmt.Errorf("%w: %q: %w", engine.ErrState, f.key, err)
	}
	return reply, err
}

// blamesState tells what a script says of a state from what Redis says of a
// command. Redis 6.2 puts its own words in front.
func blamesState(refusal string) bool {
	return slices.ContainsFunc([]string{"STATE ", "WRONGTYPE ", "attempt to ", "bad argument "}, func(words string) bool {
		return strings.Contains(refusal, words)
	})
}
