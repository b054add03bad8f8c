// Package luatest checks the scripts of the engines, as text: nothing runs. It is
// a module of its own, since nobody else needs a parser of Lua.
package luatest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/fairlimit/fairlimit/lua"
)

// declared are the globals that every server has which runs these scripts,
// real or not.
var declared = strings.Fields("KEYS ARGV redis math string table tonumber tostring type ipairs pairs " +
	"pcall unpack error")

// lint checks the scripts that an engine assembles of the parts in a folder.
// Each of them
//
//   - can be parsed, and says which keys and arguments it takes and what it
//     returns,
//   - uses no other globals than the declared ones,
//   - joins no number with '..': Redis writes a number with 14 digits,
//     and a time has 16,
//   - reads in no assignment what it assigns beside it: in miniredis a, b = b, a
//     can take the new value for both (yuin/gopher-lua#440).
//
// Every part in the folder is used, and begins with a comment.
func lint(t *testing.T, folder string, scripts map[string]*lua.Script) {
	var used []string
	for _, script := range scripts {
		used = append(used, script.Parts()...)
		t.Run(strings.Join(script.Parts(), "+"), func(t *testing.T) {
			chunk := parsed(t, script.Source())
			saysWhatItTakesAndReturns(t, script.Source())
			for _, name := range globalsOf(chunk) {
				assert.Contains(t, declared, name)
			}
			for _, problem := range joinsOf(chunk) {
				assert.Fail(t, "a number is joined, or a name that is given one elsewhere", problem)
			}
			for _, name := range readWhileAssigned(chunk) {
				assert.Fail(t, "an assignment to several names reads one of them", name)
			}
		})
	}
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		part := filepath.Base(folder) + "/" + strings.TrimSuffix(file.Name(), ".lua")
		assert.Contains(t, used, part, "nobody uses it")
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(text), "-- "), "%s says nothing of itself", part)
	}
}

func parsed(t *testing.T, source string) []ast.Stmt {
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	require.NoError(t, err)
	return chunk
}

var comment = regexp.MustCompile(`--[^\n]*`)

func saysWhatItTakesAndReturns(t *testing.T, source string) {
	about := strings.Join(comment.FindAllString(source, -1), "\n")
	assert.Regexp(t, `(?m)^-- +KEYS`, about)
	assert.Regexp(t, `(?m)^-- +Returns?\b`, about)
	if strings.Contains(comment.ReplaceAllString(source, ""), "ARGV") {
		assert.Regexp(t, `(?m)^-- +ARGV`, about)
	}
}

// globalsOf returns the names that a script uses and declares nowhere.
func globalsOf(chunk []ast.Stmt) (globals []string) {
	var names []string
	each(chunk, func(node any) {
		switch node := node.(type) {
		case *ast.LocalAssignStmt:
			names = append(names, node.Names...)
		case *ast.NumberForStmt:
			names = append(names, node.Name)
		case *ast.GenericForStmt:
			names = append(names, node.Names...)
		case *ast.FunctionExpr:
			names = append(names, node.ParList.Names...)
		}
	})
	each(chunk, func(node any) {
		if e, is := node.(*ast.IdentExpr); is && !slices.Contains(names, e.Value) {
			globals = append(globals, e.Value)
		}
	})
	return globals
}

// readWhileAssigned returns the names that are assigned together with others,
// one of whose values reads them.
func readWhileAssigned(chunk []ast.Stmt) (names []string) {
	each(chunk, func(node any) {
		s, is := node.(*ast.AssignStmt)
		if !is || len(s.Rhs) < 2 {
			return
		}
		for i, target := range s.Lhs {
			name, isName := target.(*ast.IdentExpr)
			others := slices.Concat(s.Rhs[:min(i, len(s.Rhs))], s.Rhs[min(i+1, len(s.Rhs)):])
			each(others, func(node any) {
				if read, is := node.(*ast.IdentExpr); is && isName && read.Value == name.Value {
					names = append(names, name.Value)
				}
			})
		}
	})
	return names
}

// each calls f for every statement and every expression of a piece of a script,
// those of functions too.
func each(piece any, f func(node any)) { walk(reflect.ValueOf(piece), f) }

func walk(v reflect.Value, f func(node any)) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Pointer {
			switch node := v.Interface().(type) {
			case ast.Stmt, ast.Expr:
				f(node)
			}
		}
		walk(v.Elem(), f)
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), f)
			}
		}
	}
}
