package fairlimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// again lets callers call, and after a while call again, until ctx ends.
func (c *tally) again(ctx context.Context, id string, l fairlimit.Limiter, callers int, pause time.Duration) {
	for range callers {
		c.group.Go(func() {
			for l.Wait(ctx) == nil {
				c.got(id)
				time.Sleep(pause)
			}
		})
	}
}

// A share does not depend on how many callers a flow has, nor on the shape of
// the quota.
func TestAFlowOfFewCallersHasItsShare(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, quota := range map[string]fairlimit.Quota{
		"even": fairlimit.Every(50 * time.Millisecond), "in bursts": fairlimit.PerSecond(20),
		"burst": {Permits: 20, Per: second, Burst: 5},
	} {
		for callers, least := range map[int]float64{1: 0.4, 3: 0.45} {
			for _, weight := range []int{1, 3} {
				t.Run(fmt.Sprint(name, ", ", callers, " callers, weight ", weight), func(t *testing.T) {
					t.Parallel()
					redistest.Bubble(t, func(t *testing.T, rdb *redis.Client) {
						ctx, stop := context.WithTimeout(t.Context(), 40*second)
						defer stop()
						var c tally
						c.again(ctx, "many", flowOf(t, rdb, quota, "many", weight), 200, 10*time.Millisecond)
						c.again(ctx, "few", flowOf(t, rdb, quota, "few", 1), callers, 10*time.Millisecond)
						c.group.Wait()
						few, many := float64(c.count("few")), float64(c.count("many"))
						t.Logf("%.1f %% of %.1f %%", 100*few/(few+many), 100*(few+many)/20/40)
						assert.GreaterOrEqual(t, few/(few+many), least*2/float64(1+weight))
						assert.GreaterOrEqual(t, few+many, 0.97*20*40)
					})
				})
			}
		}
	}
}
