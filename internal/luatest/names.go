package luatest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// names are what a script calls things.
type names struct {
	globals  []string // that it reads or writes, sorted
	declared int      // locals so far
}

// namesOf also gives each local a name of its own: another number behind it for
// each declaration.
func namesOf(chunk []ast.Stmt) names {
	n := &names{}
	n.function(chunk, nil, nil)
	slices.Sort(n.globals)
	n.globals = slices.Compact(n.globals)
	return *n
}

// scope is a function that is read, and which of its locals can be seen.
type scope struct {
	*names
	around *scope
	local  []string
}

func (n *names) function(body []ast.Stmt, parameters []string, around *scope) {
	s := &scope{names: n, around: around}
	s.declare(parameters)
	s.block(body)
}

// declare renames the names.
func (s *scope) declare(names []string) {
	for i := range names {
		s.declared++
		names[i] = fmt.Sprintf("%s#%d", names[i], s.declared)
	}
	s.local = append(s.local, names...)
}

// block reads statements, whose locals end with it.
func (s *scope) block(body []ast.Stmt) {
	seen := len(s.local)
	for _, stmt := range body {
		s.statement(stmt)
	}
	s.local = s.local[:seen]
}

// loop is a block with locals.
func (s *scope) loop(body []ast.Stmt, names []string) {
	seen := len(s.local)
	s.declare(names)
	s.block(body)
	s.local = s.local[:seen]
}

func (s *scope) statement(stmt ast.Stmt) {
	switch stmt := stmt.(type) {
	case *ast.LocalAssignStmt:
		if len(stmt.Exprs) == 1 {
			if _, recursive := stmt.Exprs[0].(*ast.FunctionExpr); recursive {
				s.declare(stmt.Names)
				s.expressions(stmt.Exprs...)
				return
			}
		}
		s.expressions(stmt.Exprs...)
		s.declare(stmt.Names)
	case *ast.NumberForStmt:
		s.expressions(stmt.Init, stmt.Limit, stmt.Step)
		name := []string{stmt.Name}
		s.loop(stmt.Stmts, name)
		stmt.Name = name[0]
	case *ast.GenericForStmt:
		s.expressions(stmt.Exprs...)
		s.loop(stmt.Stmts, stmt.Names)
	default:
		expressions, blocks := partsOf(stmt)
		s.expressions(expressions...)
		for _, body := range blocks {
			s.block(body)
		}
	}
}

func (s *scope) expressions(all ...ast.Expr) {
	for _, e := range all {
		switch e := e.(type) {
		case *ast.IdentExpr:
			e.Value = s.name(e.Value)
		case *ast.FunctionExpr:
			s.function(e.Stmts, e.ParList.Names, s)
		default:
			s.expressions(operandsOf(e)...)
		}
	}
}

// name returns whose name that is: a local's of this function, one's around it,
// or everybody's.
func (s *scope) name(name string) string {
	for _, local := range slices.Backward(s.local) {
		if strings.HasPrefix(local, name+"#") {
			return local
		}
	}
	if s.around == nil {
		s.globals = append(s.globals, name)
		return name
	}
	return s.around.name(name)
}
