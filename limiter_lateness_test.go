package fairlimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
