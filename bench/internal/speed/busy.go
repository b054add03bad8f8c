package speed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
)

// The busy row asks without a pause, as a busy server is asked. Callers send
// their questions in two pipelines, so that the server has the next one before
// it has answered the last: its caches stay warm and it hardly ever sleeps.
// What a script takes is read from the server's own counter. So neither the
// network nor this program is in it. The paced rows show the same script on
// caches that something else has used meanwhile.
const (
	pipelines = 2
	pipelined = 64 // questions in each

	// A round of either side takes some 10 ms, and there are many, so that the
	// server and the machine are the same to both.
	brief = 8

	// crowdedRound is by how much rounds are shorter still where the traffic
	// of both sides has to be even over a window, and more.
	crowdedRound = 5
)

// kind is one figure of the busy row.
type kind struct {
	what    string
	goal    *Goal // nil where the figure only shows what the others depend on
	quota   fairlimit.Quota
	held    int  // turns taken one by one before anything is measured, at least 1
	refused bool // by both sides; otherwise both grant

	// Where names are crowded, so many share the questions. A name is asked
	// most times a second, if that is set.
	names, most int
}

// busyKinds differ in how many moments a window holds: that is what the script
// reads and writes. The quota that is never short is asked tens of thousands of
// times within its second. The one that holds ten moments has a window just so
// long. Each of the crowded names gets several hundred questions a second.
var busyKinds = []kind{
	{what: "granted, quota never short", goal: oneFour(1.7), quota: ample},
	{what: "granted, 10 moments held", quota: fairlimit.Quota{Permits: ample.Permits, Per: 300 * time.Microsecond}},
	{what: "queued, 1 a millisecond", goal: oneFour(1.7), quota: fairlimit.Every(interval)},
	{what: "queued, 10 a second", quota: fairlimit.PerSecond(10), held: 10},
	{what: "refused, 1 moment held", goal: oneFour(1.5), quota: hourly(1), refused: true},
	{what: "refused, 100 moments held", goal: oneFour(1.5), quota: hourly(100), held: 100, refused: true},
	{what: "10³ permits, crowded", goal: oneFour(2), quota: fairlimit.PerSecond(1000), names: 16, most: 800},
	{what: "10³ permits, crowded, saturated", goal: oneFour(2), quota: fairlimit.PerSecond(1000), names: 8},
}

func oneFour(bound float64) *Goal { return ratioAtMost(bound).andMark(1.4) }

// hourly is a quota that frees nothing while it is measured.
func hourly(permits int) fairlimit.Quota { return fairlimit.Quota{Permits: permits, Per: time.Hour} }

// busy is a reservation on a server that is asked without a pause.
func busy(ctx context.Context, b *bed) ([]Figure, error) {
	var figures []Figure
	for _, k := range busyKinds {
		figure, err := b.busyKind(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.what, err)
		}
		figures = append(figures, figure)
	}
	return figures, nil
}

func (b *bed) busyKind(ctx context.Context, k kind) (Figure, error) {
	rounds, times := brief*b.Rounds, max(1, b.Calls/40)
	if k.names > 0 {
		rounds, times = rounds*crowdedRound, max(1, times/crowdedRound)
	}
	theirs, err := b.peers(ctx, k)
	if err != nil {
		return Figure{}, err
	}
	o, err := b.ours(ctx, k)
	if err != nil {
		return Figure{}, err
	}
	sides := []measure{b.unpaused(theirs, times), k.spaced(times, b.unpaused(o.crew, times))}
	if k.names > 0 {
		if err := b.fill(ctx, sides); err != nil {
			return Figure{}, err
		}
	}
	o.asked.Store(0)
	o.waited.Store(0)
	began := time.Now()
	p, err := inTurn(ctx, rounds, sides[0], sides[1])
	if err != nil {
		return Figure{}, err
	}
	return k.figure(p, o, time.Since(began)), nil
}

func (k kind) figure(p pair, o *ours, lasted time.Duration) Figure {
	figure := Figure{What: "script, busy, " + k.what, Unit: "µs"}.beside(peerName+", busy", p)
	if k.goal != nil {
		figure = figure.against(k.goal)
	}
	if k.names > 0 {
		asked := float64(o.asked.Load())
		figure.Note = fmt.Sprintf("%d names, each asked %.0f times a second; %.0f %% had to wait",
			k.names, asked/lasted.Seconds()/float64(k.names), 100*float64(o.waited.Load())/asked)
	}
	return figure
}

// fill has both sides asked in turn for the windows' time, as they will be
// when they are measured.
func (b *bed) fill(ctx context.Context, sides []measure) error {
	for began := time.Now(); time.Since(began).Seconds() < b.Windows; {
		if _, err := inTurn(ctx, 1, sides[0], sides[1]); err != nil {
			return err
		}
	}
	return nil
}

// spaced begins rounds so far apart that no name is asked too often.
func (k kind) spaced(times int, m measure) measure {
	if k.most == 0 {
		return m
	}
	step := time.Second * time.Duration(pipelines*pipelined*times) / time.Duration(k.names*k.most)
	var next time.Time
	return func(ctx context.Context) (float64, error) {
		time.Sleep(time.Until(next))
		next = time.Now().Add(step)
		return m(ctx)
	}
}

// crew is what each caller asks, pipeline by pipeline.
type crew []call

// ours is a crew that counts what it was answered.
type ours struct {
	crew
	asked, waited atomic.Int64
}

func (b *bed) ours(ctx context.Context, k kind) (*ours, error) {
	o, names := new(ours), b.busyNames(k)
	for _, name := range names {
		if err := k.hold(ctx, engine.Config{Client: b.rdb, Name: name, Quota: engine.Quota(k.quota)}); err != nil {
			return nil, err
		}
	}
	for _, rdb := range b.pipelining() {
		for i := range pipelined {
			e, err := fair.New(engine.Config{Client: rdb, Name: names[i%len(names)], Quota: engine.Quota(k.quota)})
			if err != nil {
				return nil, err
			}
			o.crew = append(o.crew, o.ask(e, k))
		}
	}
	return o, nil
}

// hold has the server learn the script and takes the turns to be held.
func (k kind) hold(ctx context.Context, cfg engine.Config) error {
	e, err := fair.New(cfg)
	for i := 0; i < max(1, k.held) && err == nil; i++ {
		_, err = (&asked{e}).take(ctx, 1)
	}
	return err
}

func (o *ours) ask(e engine.Engine, k kind) call {
	requests := []engine.Request{{N: 1, MaxWait: engine.Forever}}
	if k.refused {
		requests[0].MaxWait = 0
	}
	return func(ctx context.Context) error {
		answers, err := e.Take(ctx, requests)
		if err != nil {
			return err
		}
		o.asked.Add(1)
		if answers[0].Wait > 0 {
			o.waited.Add(1)
		}
		return k.expect(answers[0].Granted)
	}
}

func (b *bed) peers(ctx context.Context, k kind) (c crew, err error) {
	limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	if k.refused {
		limit = redis_rate.Limit{Rate: 1, Burst: 1, Period: time.Hour}
	}
	names := b.busyNames(k)
	for _, name := range names {
		if _, err := redis_rate.NewLimiter(b.rdb).Allow(ctx, name, limit); err != nil {
			return nil, err
		}
	}
	for _, rdb := range b.pipelining() {
		limiter := redis_rate.NewLimiter(rdb)
		for i := range pipelined {
			name := names[i%len(names)]
			c = append(c, func(ctx context.Context) error {
				result, err := limiter.Allow(ctx, name, limit)
				if err != nil {
					return err
				}
				return k.expect(result.Allowed > 0)
			})
		}
	}
	return c, nil
}

func (b *bed) busyNames(k kind) (names []string) {
	for range max(1, k.names) {
		names = append(names, b.name("busy"))
	}
	return names
}

func (k kind) expect(granted bool) error {
	if granted == k.refused {
		return fmt.Errorf("granted is %v, not %v", granted, !granted)
	}
	return nil
}

// unpaused is how long the server runs scripts for a question, however many of
// them that takes, while the crew keeps it busy.
func (b *bed) unpaused(c crew, times int) measure {
	return func(ctx context.Context) (float64, error) {
		s, err := b.during(ctx, func() error { return c.keepAsking(ctx, times) })
		return s.Micros / float64(len(c)*times), err
	}
}

// keepAsking has everybody ask so many times. The first error ends it.
func (c crew) keepAsking(ctx context.Context, times int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, ask := range c {
		all.Go(func() {
			for range times {
				if err := ask(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
