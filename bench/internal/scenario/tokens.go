package scenario

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/estimate"
)

// Tokens is how callers guess what a call will write, and the goal. Nobody knows
// it before the end of the call.
type Tokens struct {
	Quantile float64 // of what calls wrote; 0: the most that a call may write
	Long     bool    // a call takes as long as it writes

	Never429 bool
	Used     measure.Part // part of the output allowed that is to be used
	Fullest  measure.Part // part of the output allowed that a window is to hold at most
}

// counters are the engines that these scenarios compare unless a flag names
// others.
const counters = "fair,redis_rate"

// tokens are the scenarios before an upstream that counts calls, input and
// output, as those of language models do. They differ in the estimate.
func tokens() (all []Scenario) {
	for _, one := range []struct {
		name, estimate string
		Tokens
	}{
		{"most", "the most that a call may write", Tokens{Never429: true}},
		{"75", "the 75 % quantile of the output seen", Tokens{Quantile: 0.75, Used: 0.8, Fullest: 1.02}},
		{"long", "the 75 % quantile, and long outputs take long", Tokens{Quantile: 0.75, Long: true}},
	} {
		all = append(all, Scenario{
			Name:  "tokens-" + one.name,
			About: "calls of a language model; the estimate is " + one.estimate,
			Load: Load{
				Quota: Quota{Permits: 200, Per: 6 * time.Second}, Input: 400_000, Output: 100_000,
				Clients: 4, Callers: 15, Duration: 36 * time.Second,
			},
			Engines: counters,
			Tokens:  &one.Tokens,
			Behave:  one.behave,
		})
	}
	return all
}

// mostOutput is what a call may write.
const mostOutput = 4096

// Estimator is what the callers of a client share. It is nil if they do not
// guess.
func (t *Tokens) Estimator(seed uint64, client int) *estimate.Estimator {
	if t == nil || t.Quantile == 0 {
		return nil
	}
	const before = 256
	guesses, rng := estimate.New(t.Quantile), rand.New(rand.NewPCG(seed, uint64(1000+client)))
	for range before {
		guesses.Saw("", outputOf(rng))
	}
	return guesses
}

// Parts of the quota's window. If that is a minute, second is a second and token
// 10 ms: a call pauses for a second after a 429, and takes 10 to 20 ms a token.
const (
	second = 1. / 60
	token  = second / 100
)

// length is that of a call, as a part of the quota's window.
func (t *Tokens) length(rng *rand.Rand, output int) float64 {
	if t.Long {
		return second + float64(output)*token*(1+rng.Float64())
	}
	return second * (4 + 12*rng.Float64())
}

// behave is to call again and again. A call that is turned away is made again.
func (t *Tokens) behave(ctx context.Context, me Caller) {
	per := me.Load.Quota.Per
	if !sleep(ctx, part(per, second*me.Rand.Float64())) {
		return
	}
	for ctx.Err() == nil {
		c := measure.Tokens{Input: size(me.Rand, 1500, 100_000), Output: outputOf(me.Rand)}
		c.Takes = part(per, t.length(me.Rand, c.Output))
		for through := false; !through; {
			attempt := c
			attempt.Reserved = me.guess()
			if through = me.Call(ctx, 1, &attempt); !through && !sleep(ctx, part(per, second)) {
				return
			}
		}
		if me.Estimator != nil {
			me.Estimator.Saw("", c.Output)
		}
	}
}

func (me Caller) guess() int {
	if me.Estimator == nil {
		return mostOutput
	}
	return me.Estimator.Guess("", mostOutput)
}

// size draws a number of tokens, log-normal with a mean.
func size(rng *rand.Rand, mean float64, most int) int {
	const sigma = 0.8
	return 1 + min(most-1, int(mean*math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)))
}

func outputOf(rng *rand.Rand) int { return size(rng, 600, mostOutput) }
