package luatest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGlobalsAreWhatNoLocalIs(t *testing.T) {
	t.Parallel()
	found := namesOf(parsed(t, `local a = one
		function two() three = 3; return function() return four.five, a end end
		for i = a, six do local seven = i end
		return seven`))
	require.Equal(t, []string{"four", "one", "seven", "six", "three", "two"}, found.globals)
}

func TestNoNumberIsJoined(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"local a = 'x' return a .. KEYS[1] .. string.format('%d', 7)",
		"local a = ARGV[1] == '' and 'x' or redis.call('GET', 'y') return a .. 'z'",
		"local a, at = string.match('x', '(.)()') return a .. 'z'",
		"local function f(x) return x .. 'y' end return f('z')",
		"local lines = {} lines[1] = 'x' return lines[1] .. 'y'",
		"local x = 7 do local x = 'y' return x .. 'z' end",
	} {
		chunk := parsed(t, script)
		namesOf(chunk)
		require.Empty(t, joinsOf(chunk), script)
	}
	for _, script := range []string{
		"local a = 7 return a .. 'x'",
		"local a = 'x' a = ARGV[1] + 0 return a .. 'x'",
		"local function f(x) return x .. 'y' end return f(7)",
		"local lines = {} lines[1] = #KEYS return lines[1] .. 'y'",
		"local x = { y = 7 } return x.y .. 'z'",
		"for i = 1, 3 do redis.call('SET', 'x' .. i, 'y') end",
		"local x = 'y' do local x = 7 return x .. 'z' end",
		"return tostring(7)",
	} {
		chunk := parsed(t, script)
		namesOf(chunk)
		require.NotEmpty(t, joinsOf(chunk), script)
	}
}
