package lua_test

import (
	"encoding/binary"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// declared are the globals that every server offers to a script, real or not.
var declared = strings.Fields("KEYS ARGV redis math string table tonumber type ipairs pairs pcall unpack error")

// scripts are the parts of all scripts there are, as the engines assemble them.
var scripts = [][]string{
	fairParts("open", "hot", "log", "windows", "compact", "recover", "begin", "write", "grant", "take"),
	fairParts("open", "log", "windows", "compact", "recover", "begin", "write", "release"),
	fairParts("open", "log", "windows", "compact", "recover", "begin", "write", "grant", "status"),
	fairParts("forget", "log", "windows", "compact", "recover", "write", "reset"),
	{"window/head", "window/count", "window/wait", "window/settle", "window/save", "window/take"},
	{"window/head", "window/count", "window/settle", "window/save", "window/back"},
	{"window/head", "window/count", "window/settle", "window/save", "window/release"},
	{"window/head", "window/count", "window/wait", "window/read"},
	{"window/head", "window/count", "window/save", "window/rule"},
	{"window/head", "window/forget"},
}

func fairParts(names ...string) []string {
	parts := []string{"fair/head"}
	for _, name := range names {
		parts = append(parts, "fair/"+name)
	}
	return parts
}

// each runs the check on every script, as a server would get it.
func each(t *testing.T, check func(t *testing.T, source string)) {
	for _, parts := range scripts {
		t.Run(strings.Join(parts, "+"), func(t *testing.T) { check(t, lua.Assemble(parts...).Source()) })
	}
}

func TestEveryPartIsLinted(t *testing.T) {
	files, err := filepath.Glob("*/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		part := strings.TrimSuffix(filepath.ToSlash(file), ".lua")
		has := func(parts []string) bool { return slices.Contains(parts, part) }
		assert.True(t, slices.ContainsFunc(scripts, has), part)
	}
}

func TestAnErrorNamesThePartAndItsLine(t *testing.T) {
	rdb := redistest.Standalone(t)
	require.NoError(t, rdb.Set(t.Context(), "{named}:value", "1", 0).Err())
	require.NoError(t, rdb.RPush(t.Context(), "named", "no hash").Err())
	script := lua.Assemble("window/head", "window/count", "window/wait", "window/read")
	_, err := script.Run(t.Context(), rdb, []string{"named", "{named}:value", "a", "b", "c"}, "", "", "")
	require.Error(t, err)
	require.Contains(t, err.Error(), "lua/window/head.lua:")
	require.NotContains(t, err.Error(), "user_script")
	require.True(t, redis.HasErrorPrefix(err, "WRONGTYPE"))
}

// The server's own compiler lists the globals: it dumps a script as bytecode,
// in which every use of one is an instruction.
func TestScriptsCompileAndTouchNoUndeclaredGlobal(t *testing.T) {
	rdb := redistest.Standalone(t)
	compile := func(source string) ([]byte, error) {
		dump, err := rdb.Eval(t.Context(), `local f, problem = loadstring(ARGV[1])
			return f and string.dump(f) or redis.error_reply(problem)`, []string{"unused"}, source).Text()
		return []byte(dump), err
	}
	code, err := compile("local a = one; function two() three = 3; return function() return four.five end end")
	require.NoError(t, err)
	require.Equal(t, []string{"four", "one", "three", "two"}, globals(code), "the check itself")
	_, err = compile("local = 1")
	require.Error(t, err)

	each(t, func(t *testing.T, source string) {
		code, err := compile(source)
		require.NoError(t, err)
		for _, name := range globals(code) {
			assert.Contains(t, declared, name)
		}
	})
}

// globals lists the names that instructions of Lua 5.1 bytecode read from or
// write to the table of globals.
func globals(code []byte) []string {
	const header, getGlobal, setGlobal = 12, 5, 7
	var names []string
	at := header
	number := func() int {
		at += 4
		return int(binary.LittleEndian.Uint32(code[at-4:]))
	}
	text := func() string {
		n := int(binary.LittleEndian.Uint64(code[at:]))
		at += 8 + n
		return strings.TrimSuffix(string(code[at-n:at]), "\x00")
	}
	var function func()
	function = func() {
		_ = text() // where it is from
		at += 2*4 + 4
		instructions := make([]uint32, number())
		for i := range instructions {
			instructions[i] = uint32(number())
		}
		constants := make([]string, number())
		for i := range constants {
			at++
			switch code[at-1] {
			case 1:
				at++
			case 3:
				at += 8
			case 4:
				constants[i] = text()
			}
		}
		for _, in := range instructions {
			if op := in & 0x3f; op == getGlobal || op == setGlobal {
				names = append(names, constants[in>>14])
			}
		}
		for range number() {
			function()
		}
		at += 4 * number()
		for range number() {
			_ = text()
			at += 8
		}
		for range number() {
			_ = text()
		}
	}
	function()
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	comment = regexp.MustCompile(`--[^\n]*`)
	literal = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	// These may be joined to other text: a literal, a call that formats or
	// joins text, a name known to hold text. A number may not: Redis writes it
	// with 14 digits, and a time has 16.
	joined = regexp.MustCompile(`^(.*('')|.*\)|.*\b(text|line|kept|cells|cell|kind|field)) *$`)
	joins  = regexp.MustCompile(`^ *((string\.)?(format|char|sub)\(|table\.concat\(|` +
		`(decimal|digit|window_text)\(|''|(line|kept|kind|cell|cells|field|gone_at)\b)`)
)

func TestScriptsFormatNoNumberImplicitly(t *testing.T) {
	each(t, func(t *testing.T, source string) {
		source = literal.ReplaceAllString(comment.ReplaceAllString(source, ""), "''")
		assert.NotContains(t, source, "tostring")
		for i, line := range strings.Split(strings.ReplaceAll(source, "...", ""), "\n") {
			for parts := strings.Split(line, ".."); len(parts) > 1; parts = parts[1:] {
				assert.Regexp(t, joined, parts[0], "line %d: %s", i+1, line)
				assert.Regexp(t, joins, parts[1], "line %d: %s", i+1, line)
			}
		}
	})
}

func TestScriptsSayWhatTheyTakeAndReturn(t *testing.T) {
	each(t, func(t *testing.T, source string) {
		about := strings.Join(comment.FindAllString(source, -1), "\n")
		assert.True(t, strings.HasPrefix(source, "--"))
		assert.Regexp(t, `(?m)^-- +KEYS`, about)
		assert.Regexp(t, `(?m)^-- +Returns?\b`, about)
		if strings.Contains(comment.ReplaceAllString(source, ""), "ARGV") {
			assert.Regexp(t, `(?m)^-- +ARGV`, about)
		}
	})
}
