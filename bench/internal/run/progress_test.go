package run

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlainLinesNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := To(&out)
	p.Begin("steady, fair", 12*time.Second)
	for left := 12 * time.Second; left >= 0; left -= 100 * time.Millisecond {
		p.Update(left, int(12-left.Seconds()))
	}
	require.Equal(t, `steady, fair: 12s to go
steady, fair: 7 s left, 5 grants so far
steady, fair: 2 s left, 10 grants so far
`, out.String())
}
