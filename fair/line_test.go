package fair

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestThePictureOfALineIsWhatTheEngineWouldSay(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		rng := rand.New(rand.NewPCG(1, 2))
		f, at := w.queue(t,
			engine.Quota{Permits: 7, Per: time.Second, Burst: 2}, engine.Quota{Permits: 30, Per: 20 * time.Second})
		paused := false
		for now := time.Duration(0); now < 40*time.Second; now += time.Duration(rng.IntN(700)) * time.Millisecond {
			at(now)
			queued(t, f, 1+rng.IntN(4), 1+rng.IntN(2))
			if !paused && now > 20*time.Second {
				pause(t, f, 3*time.Second)
				paused = true
			}
			s := inspected(t, f)
			status, err := f.Status(t.Context())
			require.NoError(t, err)
			require.InDelta(t, status.Delay, s.Next, float64(2*time.Millisecond), "at %v", now)
			require.Equal(t, s.Backlog, s.Granted(0, time.Hour))
			require.Zero(t, s.Granted(s.Tail, time.Hour))
			parts := int64(0)
			for from := time.Duration(0); from < 30*time.Second; from += 40 * time.Millisecond {
				parts += s.Granted(from, from+40*time.Millisecond)
			}
			require.Equal(t, s.Granted(0, 30*time.Second), parts)
			if s.Paused == 0 {
				require.Equal(t, s.Windows[0].Held, s.Granted(-s.Windows[0].Per, 0))
			}
		}
	})
}
