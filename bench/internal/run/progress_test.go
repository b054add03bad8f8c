package run

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlainLinesNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := To(&out, false)
	p.Begin("steady, fair", 12*time.Second)
	for left := 12 * time.Second; left >= 0; left -= 100 * time.Millisecond {
		p.Update(left, int(12-left.Seconds()))
	}
	require.Equal(t, `steady, fair: 12s to go
steady, fair: 7 s left, 5 grants so far
steady, fair: 2 s left, 10 grants so far
`, out.String())
}

func TestASimulationSaysHowLongItWillTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := To(&out, true)
		p.Begin("steady, fair", time.Hour)
		time.Sleep(10 * time.Second)
		p.Update(45*time.Minute, 18000)
		require.Equal(t, `steady, fair: 1h0m0s of virtual time
steady, fair: 25 % simulated, 18000 grants so far, about 30s to go
`, out.String())
	})
}
