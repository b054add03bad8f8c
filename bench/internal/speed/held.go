package speed

import (
	"context"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/engines"
	"github.com/fairlimit/fairlimit/window"
)

// held is what a quota of a million takes up in Redis at most, with traffic
// spread over the window, under fair and under window.
func held(ctx context.Context, b *bed) ([]Figure, error) {
	const permits, looks = 1_000_000, 10
	most := map[string]int64{}
	limiters := map[string]fairlimit.Limiter{}
	keys := map[string][]string{}
	for name, option := range map[string]fairlimit.Option{"fair": nil, "window": fairlimit.WithEngine(window.New)} {
		of := b.name(name)
		var options []fairlimit.Option
		if option != nil {
			options = append(options, option)
		}
		limiter, err := fairlimit.New(b.rdb, of, fairlimit.PerSecond(permits), options...)
		if err != nil {
			return nil, err
		}
		engine, _ := engines.Named(name)
		limiters[name], keys[name] = limiter, engine.Keys(of)
	}
	calls := int(b.Windows * float64(time.Second/arrival))
	done := 0
	err := paced(ctx, calls, arrival, func() error {
		for _, limiter := range limiters {
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
		}
		if done++; done%max(1, calls/looks) != 0 {
			return nil
		}
		for name := range limiters {
			size, err := b.size(ctx, keys[name])
			if err != nil {
				return err
			}
			most[name] = max(most[name], size)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	figure := Figure{What: "bytes in Redis, 10⁶ permits, spread", Unit: "bytes", Ours: float64(most["fair"])}
	return []Figure{figure.besideOne("window, all its keys", float64(most["window"])).against(oursAtMost(4096))}, nil
}

// size is what the keys take up together; one that is not there takes up
// nothing.
func (b *bed) size(ctx context.Context, keys []string) (sum int64, err error) {
	for _, key := range keys {
		there, err := b.rdb.Exists(ctx, key).Result()
		if err != nil {
			return 0, err
		}
		if there == 0 {
			continue
		}
		bytes, err := b.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}
