package fair

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/luatest"
)

func TestScripts(t *testing.T) {
	luatest.Lint(t, "../lua/fair", allScripts.take, allScripts.release, allScripts.status, allScripts.reset)
}
