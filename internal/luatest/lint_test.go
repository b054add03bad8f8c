package luatest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	gopher "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	_ "github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/lua"
	_ "github.com/fairlimit/fairlimit/window"
)

func TestScripts(t *testing.T) {
	for engine, count := range map[string]int{"fair": 29, "window": 6} {
		t.Run(engine, func(t *testing.T) {
			scripts := map[string]*lua.Script{}
			for _, script := range lua.Assembled() {
				if strings.HasPrefix(script.Parts()[0], engine+"/") {
					scripts[script.Source()] = script
				}
			}
			require.Len(t, scripts, count)
			for source, script := range scripts { // a function has room for 200 locals, and fewer in miniredis
				_, err := gopher.Compile(parsed(t, source), strings.Join(script.Parts(), " "))
				require.NoError(t, err)
			}
			lint(t, "../../lua/"+engine, scripts)
			require.ElementsMatch(t, allowed(t, engine), commandsOf(t, scripts))
		})
	}
}

// allowed are the commands that an ACL has to allow for an engine, by
// docs/RELIABILITY.md, without those that send a script. INFO may be missing.
func allowed(t *testing.T, engine string) (commands []string) {
	doc, err := os.ReadFile("../../docs/RELIABILITY.md")
	require.NoError(t, err)
	about := regexp.MustCompile("(?s)\n- `" + engine + "`[^.]*?(`EVALSHA[^.]*\\..*?)\n- ").FindStringSubmatch(string(doc))
	require.NotNil(t, about)
	for _, command := range regexp.MustCompile(`\b[A-Z]{3,}\b`).FindAllString(about[1], -1) {
		if command != "EVALSHA" && command != "EVAL" && command != "OPERATE" {
			commands = append(commands, command)
		}
	}
	return commands
}

// commandsOf are those that scripts send, each once.
func commandsOf(t *testing.T, scripts map[string]*lua.Script) (commands []string) {
	for source := range scripts {
		each(parsed(t, source), func(node any) {
			call, is := node.(*ast.FuncCallExpr)
			if !is || len(call.Args) == 0 || !slices.Contains([]string{"call", ".call", ".pcall"}, nameOf(call.Func)) {
				return
			}
			if command, is := call.Args[0].(*ast.StringExpr); is && !slices.Contains(commands, command.Value) {
				commands = append(commands, command.Value)
			}
		})
	}
	return commands
}

func TestGlobalsAreWhatNoLocalIs(t *testing.T) {
	t.Parallel()
	found := globalsOf(parsed(t, `local a = one
		function two() three = 3; return function() return four.five, a end end
		for i = a, six do local b = i end`))
	require.ElementsMatch(t, []string{"one", "two", "three", "four", "six"}, found)
}

func TestNoNumberIsJoined(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"local a = 'x' return a .. KEYS[1] .. string.format('%d', 7)",
		"local a = ARGV[1] == '' and 'x' or redis.call('GET', 'y') return a .. 'z'",
		"local a, at = string.match('x', '(.)()') return a .. 'z'",
		"local function f(x) return x .. 'y' end return f('z')",
		"local lines = {} lines[1] = 'x' return lines[1] .. 'y'",
	} {
		require.Empty(t, joinsOf(parsed(t, script)), script)
	}
	for _, script := range []string{
		"local a = 7 return a .. 'x'",
		"local a = 'x' a = ARGV[1] + 0 return a .. 'x'",
		"local lines = {} lines[1] = #KEYS return lines[1] .. 'y'",
		"local x = { y = 7 } return x.y .. 'z'",
		"for i = 1, 3 do redis.call('SET', 'x' .. i, 'y') end",
		"return tostring(7)",
	} {
		require.NotEmpty(t, joinsOf(parsed(t, script)), script)
	}
}

func TestNoAssignmentReadsWhatItAssigns(t *testing.T) {
	t.Parallel()
	for script, reads := range map[string][]string{
		"a, b = b, 7":            {"b"},
		"t[#t + 1], x = x, 0":    {"x"},
		"a, b = 1, f(2, a)":      {"a"},
		"a, b = a + 1, b + 1":    nil,
		"a, b = x.b, x.a":        nil,
		"a, b = f(b, a)":         nil,
		"local a, b = b, a":      nil,
		"a = function() a() end": nil,
	} {
		require.Equal(t, reads, readWhileAssigned(parsed(t, script)), script)
	}
}
