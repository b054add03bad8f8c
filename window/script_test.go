package window

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/luatest"
)

func TestScripts(t *testing.T) {
	luatest.Lint(t, "../lua/window", takeScript, backScript, releaseScript, readScript, ruleScript, forgetScript)
}
