package fairlimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/coalesce"
)

func TestATurnMayBeLateByHalfOfTheGuard(t *testing.T) {
	const guard, own = 100 * time.Millisecond, 7 * time.Millisecond
	for name, c := range map[string]struct {
		opts []Option
		most time.Duration
	}{
		"neither":            {nil, 25 * time.Millisecond},
		"no guard":           {[]Option{WithGuard(0)}, 0},
		"a guard":            {[]Option{WithGuard(guard)}, guard / 2},
		"its own":            {[]Option{WithMaxLateness(own)}, own},
		"its own beside one": {[]Option{WithMaxLateness(own), WithGuard(guard)}, own},
		"none beside one":    {[]Option{WithGuard(guard), WithMaxLateness(0)}, 0},
	} {
		o, err := collect(c.opts)
		require.NoError(t, err)
		assert.Equal(t, c.most, o.lateness(), name)
	}
}

func TestARefusalNamesTheNearestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for want, request := range map[string]coalesce.Request{
			"an immediate turn":         {},
			"WithMaxWait (30s left)":    {MaxWait: 30 * time.Second, Deadline: in(time.Minute)},
			"ctx's deadline (in 5s)":    {MaxWait: 30 * time.Second, Deadline: in(5 * time.Second)},
			"ctx's deadline (12ms ago)": {MaxWait: 30 * time.Second, Deadline: in(-12 * time.Millisecond)},
		} {
			assert.Equal(t, want, limit(&request))
		}
	})
}
