package fair

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/luatest"
)

func TestScripts(t *testing.T) {
	luatest.Lint(t, "../lua/fair", allScripts.take, allScripts.share, allScripts.release, allScripts.status,
		allScripts.reset, allScripts.look, allScripts.pause, allScripts.set, storedScripts.take, storedScripts.share,
		storedScripts.status, storedScripts.look, inspectScript)
}
