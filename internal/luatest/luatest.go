// Package luatest checks the scripts of an engine.
package luatest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/lua"
)

// declared are the globals that every server has which runs these scripts,
// real or not.
var declared = strings.Fields("KEYS ARGV redis math string table tonumber tostring type ipairs pairs " +
	"pcall unpack error")

// Lint checks the scripts that an engine assembles of the parts in a folder:
// each compiles, touches no undeclared global, formats no number implicitly,
// says what it takes and returns, and every part in the folder is used.
func Lint(t *testing.T, folder string, scripts ...*lua.Script) {
	var used []string
	for _, script := range scripts {
		used = append(used, script.Parts()...)
		t.Run(strings.Join(script.Parts(), "+"), func(t *testing.T) {
			touchesDeclaredGlobals(t, script.Source())
			formatsNoNumberImplicitly(t, script.Source())
			saysWhatItTakesAndReturns(t, script.Source())
		})
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		part := filepath.Base(folder) + "/" + strings.TrimSuffix(file.Name(), ".lua")
		assert.Contains(t, used, part, "nobody uses it")
	}
}

// The server's own compiler lists the globals: it dumps a script as bytecode,
// in which every use of one is an instruction.
func touchesDeclaredGlobals(t *testing.T, source string) {
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

	code, err = compile(source)
	require.NoError(t, err)
	for _, name := range globals(code) {
		assert.Contains(t, declared, name)
	}
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
	// An expression that goes on in the next line.
	continued = regexp.MustCompile(`\.\.\n *`)
	literal   = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	// What may be joined to other text: a literal, what formats or joins text,
	// a name known to hold text. Never a number: Redis writes it with 14
	// digits, and a time has 16.
	joined = regexp.MustCompile(`^(.*('')|.*\)|.*\b(text|line|kept|cells|cell|kind|field)) *$`)
	joins  = regexp.MustCompile(`^ *((string\.)?(format|char|sub|rep)\(|table\.concat\(|` +
		`(decimal|digit|window_text)\(|''|(line|kept|kind|cell|cells|field|gone_at)\b)`)
)

func formatsNoNumberImplicitly(t *testing.T, source string) {
	source = literal.ReplaceAllString(comment.ReplaceAllString(source, ""), "''")
	assert.NotContains(t, strings.ReplaceAll(source, "tostring(redis)", ""), "tostring")
	for i, line := range strings.Split(continued.ReplaceAllString(strings.ReplaceAll(source, "...", ""), ".. "), "\n") {
		for parts := strings.Split(line, ".."); len(parts) > 1; parts = parts[1:] {
			assert.Regexp(t, joined, parts[0], "line %d: %s", i+1, line)
			assert.Regexp(t, joins, parts[1], "line %d: %s", i+1, line)
		}
	}
}

func saysWhatItTakesAndReturns(t *testing.T, source string) {
	about := strings.Join(comment.FindAllString(source, -1), "\n")
	assert.True(t, strings.HasPrefix(source, "--"))
	assert.Regexp(t, `(?m)^-- +KEYS`, about)
	assert.Regexp(t, `(?m)^-- +Returns?\b`, about)
	if strings.Contains(comment.ReplaceAllString(source, ""), "ARGV") {
		assert.Regexp(t, `(?m)^-- +ARGV`, about)
	}
}
