package redistest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPortStaysItsServersWhileTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := StartServer(t)
	s.Kill()
	_, ok := lease(s.port.number)
	require.False(t, ok, "another server would take it")
	s.Restart()

	s.stop()
	p, ok := lease(s.port.number)
	require.True(t, ok, "it is free again")
	p.giveBack()
}
