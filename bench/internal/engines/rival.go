package engines

import (
	"context"
	_ "embed"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// rival is the algorithm of https://github.com/Ameyanagi/LLMRateLimiter, from its
// description: all units in one script, slots in the order of the questions, one
// sleep by the client's clock, and afterwards the output is adjusted at its old
// slot.
type rival struct {
	Setup
	ids atomic.Int64
}

var rivalEngine = Engine{
	Name:   "rival",
	About:  "LLMRateLimiter, as described: slots by the client's clock, and the output adjusted at its old slot",
	Guards: true, Tokens: true, NoCalls: true,
	Open: func(s Setup) (Acquirer, error) { return &rival{Setup: s}, nil },
}

//go:embed rival.lua
var rivalText string

var rivalScript = redis.NewScript(rivalText)

func (r *rival) Acquire(ctx context.Context, n int) (*measure.Turn, error) {
	_, err := r.take(ctx, n, 0, 0)
	return nil, err
}

func (r *rival) Take(ctx context.Context, input, output int) (Settle, error) {
	id, err := r.take(ctx, 1, input, output)
	return func(ctx context.Context, used int) error {
		return rivalScript.Run(ctx, r.Redis, []string{r.Name}, "adjust", id, used).Err()
	}, err
}

// take books a slot and sleeps until it comes.
func (r *rival) take(ctx context.Context, calls, input, output int) (id string, err error) {
	now := time.Now()
	id = r.Flow + "/" + strconv.FormatInt(r.ids.Add(1), 10)
	text, err := rivalScript.Run(ctx, r.Redis, []string{r.Name}, "take", id, now.UnixMicro(),
		r.Period().Microseconds(), calls, input, output,
		r.Quota.Permits, r.Input, r.Output).Text()
	if err != nil {
		return "", err
	}
	slot, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", err
	}
	return id, clock.Sleep(ctx, time.UnixMicro(slot).Sub(now))
}
