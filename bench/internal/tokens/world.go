package tokens

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fairlimit/fairlimit/bench/internal/run"
	"github.com/fairlimit/fairlimit/estimate"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// Who calls: clients with an estimator each, and callers that call again as soon
// as their answer is there.
const (
	clients, callers = 4, 15
	most             = 4096 // tokens that a call may write
)

// Main is the life of a process that simulates. It does not return.
func Main() {
	run.InBubble(func(_ context.Context, j job, bubble func(func())) (f any, err error) {
		bubble(func() { f, err = j.do() })
		return f, err
	})
}

// world is a row as it is simulated.
type world struct {
	job
	server *miniredis.Miniredis
	upstream

	mu             sync.Mutex
	short, surplus int
	err            error
}

func (j job) do() (*Figures, error) {
	w := &world{job: j, server: miniredis.NewMiniRedis()}
	w.server.ClockTTL(true)
	defer w.server.Close()
	began := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	var last limiter
	for client := range clients {
		rdb := run.Within(w.server)
		defer rdb.Close()
		l, err := engines[j.Engine](rdb)
		if err != nil {
			return nil, err
		}
		last = l
		guesses := j.guesses(client)
		for n := range callers {
			c := &caller{w, l, guesses, rand.New(rand.NewPCG(j.Seed, uint64(callers*client+n)))}
			all.Go(func() { c.calls(ctx) })
		}
	}
	time.Sleep(j.Duration)
	end := time.Now()
	cancel()
	all.Wait()
	f := w.figures(began.Add(time.Minute), end)
	if q, isFair := last.(fair); isFair && w.err == nil {
		status, err := q.queue.Status(context.Background())
		if err != nil {
			return nil, err
		}
		f.DebtLeft = status.Units["output"].Queued
	}
	return f, w.err
}

// guesses is the estimator of a client.
func (j job) guesses(client int) *estimate.Estimator {
	guesses, rng := estimate.New(j.Quantile), rand.New(rand.NewPCG(j.Seed, uint64(1000+client)))
	for n := 0; n < 256 && !j.Cold; n++ {
		guesses.Saw("model", outputOf(rng))
	}
	return guesses
}

// figures are of the whole run, but what was used is from a moment on, when the
// line is as long as it stays.
func (w *world) figures(from, end time.Time) *Figures {
	output, used := 0, 0
	for _, c := range w.calls {
		output += c.output
		if !c.arrived.Before(from) && c.arrived.Before(end) {
			used += c.output
		}
	}
	return &Figures{
		Row: w.Row, Calls: len(w.calls), Refused: w.refused, Passed: w.passed(guard),
		Used:    float64(used) / (float64(budget.output) * end.Sub(from).Minutes()),
		Fullest: float64(w.fullest()) / float64(budget.output),
		Short:   float64(w.short) / float64(output), Surplus: float64(w.surplus) / float64(output),
	}
}

// caller is one that calls again and again.
type caller struct {
	*world
	limiter limiter
	guesses *estimate.Estimator
	rng     *rand.Rand
}

func (c *caller) calls(ctx context.Context) {
	if clock.Sleep(ctx, time.Duration(c.rng.Int64N(int64(time.Second)))) != nil {
		return
	}
	for ctx.Err() == nil {
		if err := c.call(ctx); err != nil && ctx.Err() == nil {
			c.world.mu.Lock()
			c.err = fmt.Errorf("%s: %w", c.Engine, err)
			c.world.mu.Unlock()
			return
		}
	}
}

// call asks until it is let through, reads the answer, and settles. A call that
// got through is settled even if the run is over.
func (c *caller) call(ctx context.Context) error {
	text := &call{asked: time.Now(), input: size(c.rng, 1500, 100_000), output: outputOf(c.rng)}
	text.took = time.Second + time.Duration(text.output)*(10+time.Duration(c.rng.IntN(10)))*time.Millisecond
	for {
		guess := most
		if c.Quantile > 0 {
			guess = c.guesses.Guess("model", most)
		}
		settle, err := c.limiter.take(ctx, amounts{text.input, guess})
		if err != nil {
			return err
		}
		if !c.arrive(text) {
			if err := clock.Sleep(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		time.Sleep(text.took)
		c.guesses.Saw("model", text.output)
		c.world.mu.Lock()
		c.short, c.surplus = c.short+max(0, text.output-guess), c.surplus+max(0, guess-text.output)
		c.world.mu.Unlock()
		if settle == nil {
			return nil
		}
		return settle(context.WithoutCancel(ctx), text.output)
	}
}

// size draws a number of tokens, log-normal with a mean.
func size(rng *rand.Rand, mean float64, most int) int {
	const sigma = 0.8
	return 1 + min(most-1, int(mean*math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)))
}

func outputOf(rng *rand.Rand) int { return size(rng, 600, most) }
