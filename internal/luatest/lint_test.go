package luatest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	// Their scripts are assembled when they are loaded.
	_ "github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/lua"
	_ "github.com/fairlimit/fairlimit/window"
)

func TestScripts(t *testing.T) {
	for engine, count := range map[string]int{"fair": 13, "window": 6} {
		t.Run(engine, func(t *testing.T) {
			scripts := map[string]*lua.Script{}
			for _, script := range lua.Assembled() {
				if strings.HasPrefix(script.Parts()[0], engine+"/") {
					scripts[script.Source()] = script
				}
			}
			require.Len(t, scripts, count)
			lint(t, "../../lua/"+engine, scripts)
		})
	}
}
