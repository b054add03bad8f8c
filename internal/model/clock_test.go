package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	second    = 1_000_000
	hour      = 3600 * second
	beginning = 1_700_000_000_123_456 // 16 digits of microseconds, of which none may get lost
)

// stopped is the definition of the queue's clock: time without that in which it
// stood still. Each time it shows a microsecond that it has not shown before.
type stopped struct {
	until int64 // in time
	stood int64
}

func (c *stopped) at(now int64) (label, rest int64) {
	return max(now, c.until) - c.stood, max(0, c.until-now)
}

func (c *stopped) pause(now, d int64) {
	label, rest := c.at(now)
	if rest == 0 {
		label++
	}
	if d > rest {
		c.until = now + d
		c.stood = c.until - label
	}
}

// comes is when the clock reaches a label.
func (c *stopped) comes(label int64) int64 { return label + c.stood }

func TestTheClockStandsStillAsDefined(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 21))
		now, queues := int64(beginning), &Clock{now: beginning}
		defined := &stopped{}
		for range 300 {
			now += rng.Int64N(2) * rng.Int64N(second)
			queues.Set(now)
			if rng.IntN(5) == 0 {
				d := rng.Int64N(2 * second)
				queues.Pause(now, d)
				defined.pause(now, d)
			}
			label, rest := defined.at(now)
			require.Equal(t, label, queues.Now())
			require.Equal(t, rest, queues.rest)
			slot := label + rng.Int64N(second)
			require.Equal(t, defined.comes(slot)-now, queues.Wait(slot))
		}
	}
}
