package embedded_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/embedded"
)

// A new version of Go may tell of bubbles in other words: then this hangs.
func TestABubbleGetsAnErrorAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			_, err := embedded.Start()
			require.ErrorIs(t, err, embedded.ErrBubble)
		}
		done := make(chan error)
		go func() {
			_, err := embedded.Start()
			done <- err
		}()
		require.ErrorIs(t, <-done, embedded.ErrBubble, "in a goroutine of the bubble, too")
	})
	start(t)
}
