package luatest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// makesNumbers are the functions that return a number, and number is one of ours.
var makesNumbers = strings.Fields("tonumber number floor ceil min max abs find byte len")

// joinsOf returns what is joined with '..' and shows that it is a number: what is
// written as one or computed, and what returns one. Tostring does the same.
func joinsOf(chunk []ast.Stmt) (problems []string) {
	each(chunk, func(node any) {
		switch e := node.(type) {
		case *ast.StringConcatOpExpr:
			for _, side := range []ast.Expr{e.Lhs, e.Rhs} {
				if isNumber(side) {
					problems = append(problems, fmt.Sprintf("line %d: %s", side.Line(), nameOf(side)))
				}
			}
		case *ast.FuncCallExpr: // the one thing that may be told apart this way
			if nameOf(e.Func) == "tostring" && nameOf(e.Args[0]) != "redis" {
				problems = append(problems, fmt.Sprintf("line %d: tostring", e.Line()))
			}
		}
	})
	return problems
}

// isNumber reports whether an expression shows that it is a number.
func isNumber(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return true
	case *ast.LogicalOpExpr:
		return isNumber(e.Rhs) || e.Operator == "or" && isNumber(e.Lhs)
	case *ast.FuncCallExpr:
		return slices.Contains(makesNumbers, strings.TrimPrefix(nameOf(e.Func), "."))
	}
	return false
}

// nameOf is what an expression is called by: a field by its own name, any other
// element by that of its table.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return e.Value
	case *ast.AttrGetExpr:
		if key, field := e.Key.(*ast.StringExpr); field {
			return "." + key.Value
		}
		return nameOf(e.Object)
	case *ast.FuncCallExpr:
		return nameOf(e.Func)
	}
	return fmt.Sprintf("%T", e)
}
