package fair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
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
	// server for about a millisecond at most.
	mostRuns  = 256
	mostGiven = 50
)

// fair is the engine of one limiter.
type fair struct {
	*quotaSet // that it was given
	client    redis.UniversalClient
	scripts   scripts
	key       string
	memory    memory
	member    string  // this limiter, among those of a flow
	places    places  // of its flows' entries
	latency   latency // of its questions for flows
	debts     debts   // of its flows

	guard    time.Duration // ownGuard: by the quotas
	replicas int           // that must have what is granted
	lags     atomic.Bool   // too few had what was granted last
	heard    func(*engine.News)

	stored bool                     // whether stored quotas take the place of the given ones
	known  atomic.Pointer[quotaSet] // those that hold, as far as is known; nil if not stored
}

var _ engine.Steerer = (*fair)(nil)

// New builds the engine for one limiter; it is an [engine.Builder]. It keeps
// one key, <prefix>{name}, and where quotas are stored a second one,
// <prefix>{name}:quota, which has no TTL.
//
// Its own guard is 50 ms, or a twentieth of the shortest Per if that is less.
//
// Errors match [engine.ErrUnsupported]: a Per (with the guard) of more than
// ten years, more than 10⁹ Permits, a Burst whose window rounds to less than a
// microsecond, more than 8 windows (each quota is one, each Burst another), and
// stored quotas on a Cluster or Ring under a name that begins with }.
func New(cfg engine.Config) (engine.Engine, error) {
	if cfg.OwnGuard {
		cfg.Guard = ownGuard
	}
	var quotas []engine.Quota
	if cfg.Quota != (engine.Quota{}) || len(cfg.Extra) > 0 {
		quotas = append([]engine.Quota{cfg.Quota}, cfg.Extra...)
	}
	given, err := newQuotaSet(quotas, cfg.Units, cfg.Guard, notStored)
	if err != nil {
		return nil, err
	}
	prefix := defaultPrefix
	if cfg.Prefix != nil {
		prefix = *cfg.Prefix
	}
	f := &fair{
		client: cfg.Client, scripts: allScripts, key: prefix + "{" + cfg.Name + "}", quotaSet: given,
		guard: cfg.Guard, replicas: cfg.Replicas, heard: cfg.Heard, stored: cfg.Stored,
		member: word36(rand.Uint64(), memberLetters),
		places: places{known: map[string]knownPlace{}}, debts: debts{of: map[string][]debt{}},
	}
	if f.stored || len(cfg.Units) > 0 {
		err = f.sharesSlot()
	}
	if f.stored && err == nil {
		f.scripts = storedScripts
		given, err = f.quotaSetOf(nil, nil, "")
		f.known.Store(given)
	}
	return f, err
}

func (f *fair) Queues() bool { return true }

// Fits says nothing where other quotas may be stored meanwhile.
func (f *fair) Fits(n int) error { return f.FitsAmounts(n, "") }

func (f *fair) Take(ctx context.Context, requests []engine.Request) (answers []engine.Answer, err error) {
	if !f.stored && len(f.windows) == 0 {
		return nil, errNotGiven
	}
	take := f.takeUnder
	if f.stored {
		take = f.takeFitting
	}
	err = f.under(func(t *quotaSet) (err error) {
		answers, err = take(ctx, t, requests)
		return err
	})
	return answers, err
}

// takeUnder asks one question for requests that fit.
func (f *fair) takeUnder(ctx context.Context, t *quotaSet, requests []engine.Request) ([]engine.Answer, error) {
	script, err := f.confirmed(ctx, f.scriptOf(t, requests), requests)
	if err != nil {
		return nil, err
	}
	args, logs, asked := f.takeArgs(t, requests)
	r, err := f.askUnder(ctx, script, t, args, logs...)
	switch {
	case errors.Is(err, engine.ErrNotReplicated):
		f.lags.Store(true)
	case err != nil:
		return nil, err
	}
	answers, problem := f.read(r, t, requests[:asked])
	return answers, cmp.Or(problem, err)
}

// confirmed returns a script as it waits for replicas, unless the requests
// accept no turn. Once too few were there, it waits for them first: what is
// granted meanwhile would come back from the middle of the queue, and push its
// end away.
func (f *fair) confirmed(ctx context.Context, s *lua.Script, requests []engine.Request) (*lua.Script, error) {
	if requests[0].MaxWait < 0 {
		return s, nil
	}
	if f.lags.Load() {
		probe := f.scripts.probe.Confirmed(f.replicas)
		if _, _, err := probe.Run(ctx, f.client, []string{f.key}); err != nil {
			return nil, err
		}
		f.lags.Store(false)
	}
	return s.Confirmed(f.replicas), nil
}

// read returns the answers to requests, and learns what else the reply says.
func (f *fair) read(r reply, t *quotaSet, requests []engine.Request) ([]engine.Answer, error) {
	o, err := decode(r.said, t, requests)
	for i := range o.answers {
		if a := &o.answers[i]; a.Share > 0 {
			a.Share = max(1, a.Share-f.debts.ahead(requests[i].Flow, &f.memory))
		}
	}
	f.learn(t, &o, r)
	return o.answers, err
}

// learn remembers where the queue was seen, and tells the news.
func (f *fair) learn(t *quotaSet, o *outcome, r reply) {
	if len(o.places) > 0 {
		f.places.learn(o.places, r, &f.memory)
		f.latency.learn(r.arrived.Sub(r.sent))
	}
	n := f.tell(o.news, r, t)
	if o.watermark.text == "" { // nothing was written
		o.watermark = n.watermark
	}
	if o.watermark.text != "" {
		f.memory.learn(o.watermark, n, t)
	}
}

// takeArgs asks for as many of the requests as one question may. It returns the
// keys of their flows' logs as well.
func (f *fair) takeArgs(t *quotaSet, requests []engine.Request) (args []any, logs []string, asked int) {
	if requests[0].Flow != nil {
		return f.shareArgs(t, requests)
	}
	args = f.argsOfAll(t, 4)
	for runs := 0; asked < len(requests) && runs < mostRuns; runs++ {
		var count int
		args, count = t.appendRun(args, 0, requests[asked:])
		asked += count
	}
	return args, nil, asked
}

// appendRun asks for as many of the requests as are equal, of a flow by its
// number among those that ask, or of none.
func (t *quotaSet) appendRun(args []any, flow int, requests []engine.Request) (_ []any, count int) {
	first, longest := &requests[0], longestOf(requests[0])
	for count < len(requests) {
		r := &requests[count]
		if r.N != first.N || r.Amounts != first.Amounts || r.Cost != first.Cost || r.Flow != first.Flow ||
			longestOf(*r) != longest {
			break
		}
		count++
	}
	args = append(args, flow, first.N, longest, count)
	if len(t.units) > 0 {
		args = append(append(args, first.InShare()), t.inOrder(first.Amounts)...)
	}
	return args, count
}

// longestOf is how long a request may wait, in microseconds.
func longestOf(r engine.Request) int64 { return min(r.MaxWait, longestWait).Microseconds() }

func (f *fair) GiveBack(ctx context.Context, grants []engine.Grant) error {
	settles := func(g engine.Grant) bool { return g.Settles }
	return engine.GiveBackInParts(grants, mostGiven, func(part []engine.Grant) error {
		return f.whatever(func(t *quotaSet) error {
			if len(t.units) > 0 || slices.ContainsFunc(part, settles) {
				return f.settle(ctx, t, part)
			}
			return f.release(ctx, t, part)
		})
	})
}

func (f *fair) release(ctx context.Context, t *quotaSet, grants []engine.Grant) error {
	args := f.args(t, 6*len(grants)+1)
	logs, of := f.logsOf(grants)
	for i, g := range grants {
		args = append(args, g.ID, g.At, g.N, g.Made, kindOf(g), of[i])
	}
	r, err := f.askUnder(ctx, f.scripts.release, t, args, logs...)
	if err != nil {
		return err
	}
	return f.learnTold(r, t)
}

func (f *fair) Status(ctx context.Context) (status engine.Status, err error) {
	err = f.under(func(t *quotaSet) (err error) {
		status, err = f.statusBy(ctx, t)
		return err
	})
	return status, err
}

func (f *fair) statusBy(ctx context.Context, t *quotaSet) (engine.Status, error) {
	if len(t.units) > 0 {
		return f.statusOfUnits(ctx, t)
	}
	// It asks how far away one permit is, in no flow, and accepts no turn.
	r, err := f.askUnder(ctx, f.scripts.status, t, append(f.args(t, 5), 0, 1, -1, 1))
	if err != nil {
		return engine.Status{}, err
	}
	status, news, err := decodeStatus(r.said)
	f.tell(news, r, t)
	return status, err
}

func (f *fair) Reset(ctx context.Context) error {
	before := f.memory.now()
	t := f.held()
	r, err := f.ask(ctx, f.scripts.reset, f.args(t, 0))
	if err != nil {
		return err
	}
	f.memory.forget(before)
	return f.hear(r, t)
}

// args begins the arguments of a script, and has room for so many more.
func (f *fair) args(t *quotaSet, more int) []any { return f.memory.recall(t).args(t, more) }

func (c carried) args(t *quotaSet, more int) []any {
	return append(append(make([]any, 0, 3+len(t.layout)+more), t.head, c.watermark, c.rest+" "+t.all), t.layout...)
}

// argsOfAll begins the arguments of a script for several units, if there are.
func (f *fair) argsOfAll(t *quotaSet, more int) []any {
	if len(t.units) > 0 {
		return f.unitArgs(t)
	}
	return f.args(t, more)
}

// ask runs a script once. The keys of flows' logs, or of the units, come last.
func (f *fair) ask(ctx context.Context, script *lua.Script, args []any, logs ...string) (reply, error) {
	keys := []string{f.key}
	if f.stored {
		keys = append(keys, f.quotaKey())
	}
	if len(f.held().units) > 0 {
		keys = append(keys, f.unitsKey())
	}
	return f.askKeys(ctx, script, append(keys, logs...), args)
}

// askKeys runs a script with these keys. Whatever it stumbles over is in them.
func (f *fair) askKeys(ctx context.Context, script *lua.Script, keys []string, args []any) (reply, error) {
	r := reply{sent: time.Now()}
	if len(args) > 1 {
		r.carried, _ = args[1].(string)
	}
	var err error
	r.said, r.ran, err = script.Run(ctx, f.client, keys, args...)
	r.arrived = time.Now()
	var refusal redis.Error
	switch {
	case !errors.As(err, &refusal) || !blamesState(refusal.Error()):
		return r, err
	case strings.Contains(refusal.Error(), "STATE stored quotas"):
		return reply{}, &unreadableQuotas{f.quotaKey(), err}
	}
	return reply{}, fmt.Errorf("%w: %q: %w", engine.ErrState, f.key, err)
}

// blamesState tells what a script says of a state from what Redis says of a
// command. Redis 6.2 puts its own words in front.
func blamesState(refusal string) bool {
	blames := []string{"STATE ", "WRONGTYPE ", "attempt to ", "cannot perform ", "bad argument ", "not an integer"}
	return slices.ContainsFunc(blames, func(words string) bool { return strings.Contains(refusal, words) })
}
