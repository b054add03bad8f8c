package lua_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	word     = regexp.MustCompile(`\b(then|do|else|end)\b`) // statements begin or end there
	several  = regexp.MustCompile(`^\s*([^=(]+,[^=(]+) = (.*,.*)$`)
	brackets = regexp.MustCompile(`\([^()]*\)|{[^{}]*}`)
	name     = regexp.MustCompile(`^\w+$`)
)

// readsWhatItAssigns returns a name that the line assigns together with others,
// one of whose values reads it; "" if there is none.
func readsWhatItAssigns(line string) string {
	code, _, _ := strings.Cut(line, "--")
	for _, statement := range word.Split(code, -1) {
		found := several.FindStringSubmatch(statement)
		if found == nil || strings.HasPrefix(found[1], "local ") || strings.HasPrefix(found[1], "for ") {
			continue
		}
		targets, values := strings.Split(found[1], ","), valuesOf(found[2])
		for i, target := range targets {
			target = strings.TrimSpace(target)
			reads := regexp.MustCompile(`(^|[^\w.])` + regexp.QuoteMeta(target) + `\b`)
			for j, value := range values {
				if i != j && len(values) > 1 && name.MatchString(target) && reads.MatchString(value) {
					return target
				}
			}
		}
	}
	return ""
}

// valuesOf splits the values of an assignment. A comma in brackets separates
// no values.
func valuesOf(text string) []string {
	for brackets.MatchString(text) {
		text = brackets.ReplaceAllStringFunc(text, func(s string) string {
			return "<" + strings.ReplaceAll(s[1:len(s)-1], ",", ";") + ">"
		})
	}
	return strings.Split(text, ",")
}

// In miniredis an assignment to several names can take the new value of one for
// another: after local a, b = 1, 2 and a, b = b, a both are 2
// (yuin/gopher-lua#440). Redis does what the Lua manual says.
func TestNoAssignmentReadsWhatItAssigns(t *testing.T) {
	for line, reads := range map[string]string{
		"  a, b = b, a":                        "a",
		"  t[#t + 1], rest = rest, 0":          "rest",
		"  if x then a, b = 1, f(2, a) -- why": "a",
		"  t.a, b = b.c, 0 end":                "b",
		"  a, b = a + 1, b + 1":                "",
		"  a, b = x.b, x.a":                    "",
		"  a, b = f(b, a)":                     "",
		"  local a, b = b, a":                  "",
	} {
		require.Equal(t, reads, readsWhatItAssigns(line), line)
	}
	files, err := filepath.Glob("*/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			assert.Empty(t, readsWhatItAssigns(line), "%s:%d: %s", file, i+1, line)
		}
	}
}
