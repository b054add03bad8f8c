package fairlimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// weather is what happens in a storm beside calls and cancels.
type weather struct {
	latency                time.Duration // of a command at most, there and back each
	pauses, resets, losses bool
	quotas                 bool // become narrower and wider
	back, ahead            bool // leaps of the server's clock
	stalls                 bool // a process stands still: its command takes seconds
	strangers              bool // whoever asks first after a loss may know of little
	flows                  bool // all limiters but the first are flows, and callers reserve, too
}

// storm is one history of several limiters of one name, each with a client of
// its own, under random weather on fake time.
type storm struct {
	*testing.T
	weather
	seed   uint64
	rng    *rand.Rand
	server *redistest.MiniServer
	within time.Duration
	queues []*fairlimit.Queue
	gusts  []*gusts // of each of them
	start  time.Time

	offset atomic.Int64 // of the server's clock
	faults []time.Duration
	leaps  []time.Duration // ahead, and unknown losses: what was granted before does not count
	resat  []time.Duration
	lost   atomic.Int32    // how often a reset may have been lost
	heard  []time.Duration // what not all hear of at once
	pauses []spell
	terms  []term // the quotas, in the order in which they were stored
	done   time.Duration
	all    sync.WaitGroup
	calls  []*stormCall
	events []string
}

// term is a time between turns, from when somebody began to store it, and when
// it was stored.
type term struct {
	from, stored time.Duration
	every        time.Duration
}

// spell is a stretch of a history.
type spell struct{ from, to time.Duration }

// stormCall is one caller: when it called, and when it went, 0 if it did not.
type stormCall struct {
	who, queue int
	called, at time.Duration
	deadline   bool
}

const stormGuard = 40 * time.Millisecond

var paces = []time.Duration{100, 250, 500, 1000}

func newStorm(t *testing.T, seed uint64, w weather) *storm {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &storm{
		T: t, weather: w, seed: seed, rng: rng, server: redistest.Mini(t), start: time.Now(),
		within: []time.Duration{200 * time.Millisecond, time.Second}[rng.IntN(2)],
	}
	if w.latency > 0 || w.stalls {
		s.within = 3 * time.Second // a look that learns of other quotas takes up to five round trips
	}
	s.terms = []term{{every: s.pace()}}
	quota, name := fairlimit.Every(s.terms[0].every), redistest.Name(t)
	for i := range 2 + rng.IntN(3) {
		rdb := s.server.NewClient(t)
		s.gusts = append(s.gusts, &gusts{storm: s, rng: rand.New(rand.NewPCG(seed, uint64(i)))})
		rdb.AddHook(s.gusts[i])
		opts := []fairlimit.Option{
			fairlimit.WithStoredQuota(), fairlimit.WithPauseWithin(s.within), fairlimit.WithGuard(stormGuard),
			fairlimit.WithTrace(&fairlimit.Trace{Missed: s.gusts[i].misses}),
		}
		if w.flows && i > 0 {
			opts = append(opts, fairlimit.WithFlow(strconv.Itoa(i), 1+rng.IntN(3)))
		}
		s.queues = append(s.queues, queueOf(t, rdb, name, quota, opts...))
	}
	s.stalls = false
	require.NoError(t, s.queues[0].SetQuotas(t.Context(), quota))
	for _, q := range s.queues {
		require.NoError(t, q.Wait(t.Context())) // it learns how quick answers are
	}
	s.stalls = w.stalls
	return s
}

func (s *storm) pace() time.Duration { return paces[s.rng.IntN(len(paces))] * time.Millisecond }

// gusts delays commands, and sets the server's clock.
type gusts struct {
	commands
	storm   *storm
	mu      sync.Mutex
	rng     *rand.Rand
	stalled []stalled
	missed  []time.Duration // turns
	told    int32           // lost of the storm when it asked
	resat   []time.Duration // when it may have carried out a lost reset again
}

// stalled is an answer that took seconds.
type stalled struct{ asked, came time.Duration }

func (g *gusts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		there, back := g.delays()
		time.Sleep(there)
		g.storm.server.SetTime(time.Now().Add(time.Duration(g.storm.offset.Load())))
		asked, lost := g.storm.now(), g.storm.lost.Load()
		err := next(ctx, cmd)
		time.Sleep(back)
		g.came(asked)
		if len(cmd.Args()) > fewWords && err == nil {
			g.tells(lost)
		}
		return err
	}
}

// came takes down when an answer came.
func (g *gusts) came(asked time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if came := g.storm.now(); came-asked > 2*g.storm.latency {
		g.stalled = append(g.stalled, stalled{asked, came})
	}
}

// fewWords is what questions have that tell nothing of the queue.
const fewWords = 10

// tells takes down whether a question was the first that its limiter asked since a
// reset was lost: then it carried that out again, if the limiter knew of it.
func (g *gusts) tells(lost int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told < lost {
		g.told, g.resat = lost, append(g.resat, g.storm.now())
	}
}

// misses takes down when a turn was missed.
func (g *gusts) misses(int, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missed = append(g.missed, g.storm.now())
}

// tookTooLong reports whether an answer took longer than the turn of a caller
// was away, and another went with that turn or soon after, or was granted its
// turn while the caller lost its own: then they need not keep their order.
func (g *gusts) tookTooLong(c, later *stormCall) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.stalled, func(a stalled) bool {
		meanwhile := a.asked <= c.at && c.called <= a.came
		soon := a.asked < later.at+g.storm.slack() && later.at <= a.came+g.storm.within
		missed := slices.ContainsFunc(g.missed, func(m time.Duration) bool { return a.asked <= m && m <= a.came })
		return meanwhile && (soon || missed && later.called <= a.came)
	})
}

func (g *gusts) delays() (there, back time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if most := int64(g.storm.latency); most > 0 {
		there, back = time.Duration(g.rng.Int64N(most)), time.Duration(g.rng.Int64N(most))
	}
	if g.storm.stalls && g.rng.IntN(20) == 0 {
		back += time.Duration(g.rng.Int64N(int64(4 * time.Second)))
	}
	return there, back
}

func (s *storm) now() time.Duration { return time.Since(s.start) }

func (s *storm) random(longest time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(longest)))
}

// notes keeps an event for those who look for what went wrong.
func (s *storm) notes(format string, args ...any) {
	s.events = append(s.events, fmt.Sprintf("%v ", s.now())+fmt.Sprintf(format, args...))
}

func (s *storm) fails(format string, args ...any) {
	s.Helper()
	what := fmt.Sprintf(format, args...)
	s.Errorf("seed %d, X %v: %s, after %v", s.seed, s.within, what, strings.Join(s.events, "; "))
}

// play lets it all happen, and returns when everybody has gone or left.
func (s *storm) play() {
	for range 60 + s.rng.IntN(100) {
		time.Sleep(time.Microsecond)
		q := s.queues[s.rng.IntN(len(s.queues))]
		switch k := s.rng.IntN(24); {
		case k < 9:
			for range 1 + s.rng.IntN(5) {
				s.call()
			}
		case k < 11 && s.weather.pauses:
			s.pause(q)
		case k == 11 && s.resets:
			s.reset(q)
		case k == 12 && s.losses:
			s.lose()
		case k < 15 && s.quotas:
			s.change(q)
		case k == 15 && s.back:
			s.offset.Add(-int64(s.random(10 * time.Minute)))
			s.heard = append(s.heard, s.now()) // the queue's clock stands still since the last question
			s.fault("the clock goes back")
		case k == 16 && s.ahead:
			s.offset.Add(int64(s.random(time.Minute)))
			s.leaps = append(s.leaps, s.now())
			s.fault("the clock leaps ahead")
		default:
			time.Sleep(s.random(1500 * time.Millisecond))
		}
	}
	s.all.Wait()
	s.done = s.now()
	time.Sleep(time.Minute) // what is under way ends by itself
}

// call lets one caller wait. It may leave at a random moment, or have a deadline.
func (s *storm) call() {
	i, patience, kind := s.rng.IntN(len(s.queues)), s.random(20*time.Second), s.rng.IntN(6)
	c := &stormCall{who: len(s.calls), queue: i, called: s.now(), deadline: kind == 1}
	s.calls = append(s.calls, c)
	s.all.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		switch kind {
		case 0:
			defer time.AfterFunc(patience, cancel).Stop()
		case 1:
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		wait := s.queues[i].Wait
		if s.flows && kind < 3 {
			wait = s.reserves(s.queues[i], kind == 2)
		}
		switch err := wait(ctx); {
		case err == nil:
			c.at = s.now()
		case s.flows && errors.Is(err, fairlimit.ErrReservationOver):
		case kind < 2 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		case s.stalls && errors.Is(err, fairlimit.ErrMissed):
		case s.quotas && s.latency > 0 && errors.Is(err, fairlimit.ErrState): // they changed too often
		case s.stalls && errors.Is(err, fairlimit.ErrOutcomeUnknown): // several answers in a row took long
		default:
			s.fails("%d: %v", c.who, err)
		}
	})
	synctest.Wait()
}

// reserves is Wait by way of a reservation, which may be cancelled meanwhile.
func (s *storm) reserves(q *fairlimit.Queue, cancels bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := q.ReserveN(ctx, 1)
		if err != nil {
			return err
		}
		if cancels {
			time.AfterFunc(r.Delay()/2, func() { assert.NoError(s, r.Cancel(context.Background()), "seed %d", s.seed) })
		}
		return r.Wait(ctx)
	}
}

func (s *storm) fault(format string, args ...any) {
	s.faults = append(s.faults, s.now())
	s.notes(format, args...)
}

// surely asks again if answers take too long.
func (s *storm) surely(ask func() error) {
	err := ask()
	for s.stalls && (errors.Is(err, fairlimit.ErrOutcomeUnknown) || errors.Is(err, fairlimit.ErrMissed)) {
		err = ask()
	}
	require.NoError(s, err, "seed %d", s.seed)
}

func (s *storm) pause(q *fairlimit.Queue) {
	d := s.random(6 * time.Second)
	s.fault("pause %v", d)
	from := s.now()
	s.surely(func() error { return q.Pause(context.Background(), max(1, d)) })
	s.pauses = append(s.pauses, spell{s.now(), from + max(d, 2*s.within)})
	s.fault("done")
}

func (s *storm) reset(q *fairlimit.Queue) {
	s.fault("reset")
	began := s.now()
	s.surely(func() error { return q.Reset(context.Background()) })
	for i := range s.pauses {
		s.pauses[i].to = min(s.pauses[i].to, began)
	}
	s.fault("done")
	s.resat, s.heard = append(s.resat, s.now()), append(s.heard, began, s.now())
}

// lose has the server lose all. All limiters know the same, and tell it before
// anybody is granted anything, unless there are strangers or answers under way.
func (s *storm) lose() {
	s.fault("loss")
	if len(s.resat) > 0 {
		defer s.lost.Add(1)
	}
	if s.strangers || s.latency > 0 { // somebody may be granted a turn that nobody has been told of yet
		s.leaps = append(s.leaps, s.now())
		s.server.FlushAll()
		return
	}
	s.hear()
	s.server.FlushAll()
	s.hear()
	s.fault("done")
}

// hear lets all limiters ask, each of which tells what it knows.
func (s *storm) hear() {
	for _, q := range s.queues {
		_, err := q.Status(context.Background())
		require.NoError(s, err, "seed %d", s.seed)
		synctest.Wait()
	}
}

func (s *storm) change(q *fairlimit.Queue) {
	every, before := s.pace(), s.terms[len(s.terms)-1].every
	s.fault("every %v", every)
	began := s.now()
	s.surely(func() error { return q.SetQuotas(context.Background(), fairlimit.Every(every)) })
	s.terms = append(s.terms, term{began, s.now(), every})
	if every > before {
		s.heard = append(s.heard, began, s.now())
	}
	s.fault("done")
}

// wasReset is when the queue was reset, or may have been.
func (s *storm) wasReset() []time.Duration {
	all := slices.Clone(s.resat)
	for _, g := range s.gusts {
		g.mu.Lock()
		all = append(all, g.resat...)
		g.mu.Unlock()
	}
	return all
}

// keepsOrder is for the callers of each limiter, whatever happens, and for those
// of all where nothing happened since the first of two called.
func (s *storm) keepsOrder() {
	resets := s.wasReset()
	for i, c := range s.calls {
		for _, later := range s.calls[i+1:] {
			if c.at == 0 || later.at == 0 || later.deadline || later.at >= c.at-s.slack() {
				continue
			}
			since := func(f time.Duration) bool { return f <= c.at }
			switch {
			case slices.ContainsFunc(resets, func(r time.Duration) bool {
				stoodInLine := s.flows && later.called <= r // and asked after the reset
				return c.called <= r && (later.at <= r+s.hears() || stoodInLine || s.tells(later, r))
			}):
			case c.queue == later.queue && s.gusts[c.queue].tookTooLong(c, later):
			case c.queue == later.queue:
				s.fails("%d of limiter %d went at %v, %d called later and went at %v",
					c.who, c.queue, c.at, later.who, later.at)
				return
			case s.latency == 0 && !s.flows && !slices.ContainsFunc(s.faults, since):
				s.fails("%d went at %v, %d of another limiter called later and went at %v",
					c.who, c.at, later.who, later.at)
				return
			}
		}
	}
}

// tells reports whether a caller's answer may have told its limiter of a reset.
func (s *storm) tells(c *stormCall, reset time.Duration) bool {
	first := slices.IndexFunc(s.calls, func(d *stormCall) bool { return d.queue == c.queue && d.called >= reset })
	return first >= 0 && c.called <= s.calls[first].called+s.answers()
}

// answers is how long an answer may take.
func (s *storm) answers() time.Duration {
	if s.stalls {
		return 10 * time.Second
	}
	return 4 * s.latency
}

// slack is by how much callers may go earlier or later than their slots.
func (s *storm) slack() time.Duration { return stormGuard/2 + time.Millisecond }

// keepsQuotas wants every two who went to be apart as the quotas of their time
// demand, but for the time until all have heard of a reset or a narrower quota.
func (s *storm) keepsQuotas() {
	var went []*stormCall
	for _, c := range s.calls {
		if c.at > 0 {
			went = append(went, c)
		}
	}
	slices.SortStableFunc(went, func(a, b *stormCall) int { return int(a.at - b.at) })
	for i := 1; i < len(went); i++ {
		a, b := went[i-1], went[i]
		if slices.ContainsFunc(s.leaps, func(l time.Duration) bool { return b.at > l }) {
			return
		}
		if slices.ContainsFunc(s.heard, func(r time.Duration) bool {
			return b.at >= r-2*s.latency && a.at <= r+s.hears()
		}) {
			continue
		}
		if least := s.least(a.at, b.at); b.at-a.at < least {
			s.fails("%d went at %v and %d at %v, %v apart, want %v", a.who, a.at, b.who, b.at, b.at-a.at, least)
			return
		}
	}
}

// hears is how long it takes until all have heard of something.
func (s *storm) hears() time.Duration { return s.within + s.answers() + s.slack() }

func (s *storm) least(from, to time.Duration) time.Duration {
	least := time.Hour
	for i, t := range s.terms {
		until := time.Duration(1 << 62)
		if i+1 < len(s.terms) {
			until = s.terms[i+1].stored + s.hears()
		}
		if t.from <= to && from <= until {
			least = min(least, t.every)
		}
	}
	return least
}

// nobodyGoesInAPause is but for those whose turn came within X.
func (s *storm) nobodyGoesInAPause() {
	for _, p := range s.pauses {
		for _, c := range s.calls {
			if c.at > p.from+s.hears() && c.at < p.to-time.Millisecond &&
				!slices.ContainsFunc(s.leaps, func(l time.Duration) bool { return c.at > l }) {
				s.fails("%d went at %v in a pause %v", c.who, c.at, p)
				return
			}
		}
	}
}

// ends wants the queue to work on after all that. Where stored quotas are lost as
// well, nobody knows how often they became narrower.
func (s *storm) ends() {
	if s.losses && s.quotas && s.latency > 0 {
		return
	}
	var paused time.Duration
	for _, p := range s.pauses {
		paused += p.to - p.from
	}
	slowest := time.Duration(len(s.calls)+20) * 4 * time.Second // of turns a second apart, with those before a change
	assert.Less(s, s.done, paused+slowest+time.Minute, "seed %d, after %v", s.seed, s.events)
	var left fairlimit.Status
	s.surely(func() (err error) {
		left, err = s.queues[0].Status(context.Background())
		return err
	})
	if len(s.faults) == 0 {
		assert.Zero(s, left.Queued, "seed %d: debt", s.seed)
	}
	time.Sleep(time.Minute) // an answer may have been late
	if s.flows {
		time.Sleep(time.Hour) // all flows are forgotten
		s.holdNothing()
	}
}

// holdNothing wants each flow to count no permits that it does not hold: alone, it
// can reserve all of the least look-ahead at once.
func (s *storm) holdNothing() {
	for _, q := range s.queues[1:] {
		began := s.now()
		for range 8 {
			r, err := q.ReserveN(s.Context(), 1)
			require.NoError(s, err)
			defer func() { require.NoError(s, r.Wait(context.WithoutCancel(s.Context()))) }()
		}
		assert.LessOrEqual(s, s.now()-began, 8*s.answers(), "seed %d: a flow counts what it does not hold", s.seed)
		require.NoError(s, q.Reset(s.Context()))
	}
}

// judge holds what happened against what is promised.
func (s *storm) judge() {
	s.keepsOrder()
	s.keepsQuotas()
	s.nobodyGoesInAPause()
	s.ends()
}

// calms stores the quota again, which a loss may have taken, and forgets what was
// judged: none of it counts any longer.
func (s *storm) calms() {
	every := s.terms[len(s.terms)-1].every
	s.surely(func() error { return s.queues[0].SetQuotas(context.Background(), fairlimit.Every(every)) })
	time.Sleep(time.Minute)
	for range 2 { // all hear of the same resets
		for _, q := range s.queues {
			s.surely(func() error { return q.Wait(context.Background()) })
		}
	}
	time.Sleep(10 * time.Second)
	s.terms = []term{{every: every}}
	s.faults, s.leaps, s.resat, s.heard, s.pauses, s.calls, s.events = nil, nil, nil, nil, nil, nil, nil
	for _, g := range s.gusts {
		g.mu.Lock()
		g.stalled, g.missed, g.resat = nil, nil, nil
		g.mu.Unlock()
	}
}

// TestAnHourOfStorms plays one storm after the other on one queue.
func TestAnHourOfStorms(t *testing.T) {
	for seed := range uint64(redistest.Long(1, 5)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorm(t, seed, weather{
					latency: 10 * time.Millisecond, stalls: true, pauses: true, resets: true, losses: true, quotas: true,
					back: true, ahead: true, strangers: true, flows: true,
				})
				for s.now() < time.Hour && !t.Failed() {
					s.play()
					s.judge()
					s.calms()
				}
			})
		})
	}
}

func TestStorms(t *testing.T) {
	for name, w := range map[string]weather{
		"calm":                   {},
		"pauses":                 {pauses: true},
		"resets":                 {pauses: true, resets: true},
		"losses":                 {pauses: true, losses: true},
		"quotas":                 {quotas: true},
		"quotas, pauses, losses": {quotas: true, pauses: true, losses: true},
		"back":                   {pauses: true, back: true},
		"flows":                  {flows: true},
		"flows in pauses":        {flows: true, pauses: true, resets: true, quotas: true},
		"slow flows":             {latency: 10 * time.Millisecond, flows: true, pauses: true, quotas: true},
		"slow":                   {latency: 10 * time.Millisecond, pauses: true, resets: true, quotas: true},
		"stalls":                 {latency: 10 * time.Millisecond, stalls: true, pauses: true},
		"all": {
			latency: 10 * time.Millisecond, stalls: true, pauses: true, resets: true, losses: true, quotas: true,
			back: true,
		},
		"unknown": {
			latency: 10 * time.Millisecond, stalls: true, pauses: true, resets: true, losses: true, quotas: true,
			back: true, ahead: true, strangers: true,
		},
	} {
		for seed := range uint64(redistest.Long(1, 50)) {
			t.Run(name+"/"+strconv.FormatUint(seed, 10), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStorm(t, seed, w)
					s.play()
					s.judge()
				})
			})
		}
	}
}
