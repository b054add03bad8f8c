package luatest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// makesNumbers are the functions that return a number, and number is one of ours.
var makesNumbers = strings.Fields("tonumber number floor ceil min max abs find byte len")

// numbers are the names that a script assigns a number to, somewhere. Elements of
// a table have its name, or that of their field.
type numbers map[string]bool

// joinsOf returns what is joined with '..' and is a number: what is written as
// one or computed, what returns one, and a name that is assigned one anywhere in
// the script.
func joinsOf(chunk []ast.Stmt) (problems []string) {
	n := numbers{}
	for known := -1; known < len(n); { // one name leads to another
		known = len(n)
		each(chunk, n.learn)
	}
	each(chunk, func(node any) {
		switch e := node.(type) {
		case *ast.StringConcatOpExpr:
			for _, side := range []ast.Expr{e.Lhs, e.Rhs} {
				if n.has(side) {
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

// has reports whether an expression is a number.
func (n numbers) has(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return true
	case *ast.LogicalOpExpr:
		return n.has(e.Rhs) || e.Operator == "or" && n.has(e.Lhs)
	case *ast.FuncCallExpr:
		return slices.Contains(makesNumbers, strings.TrimPrefix(nameOf(e.Func), "."))
	case *ast.IdentExpr, *ast.AttrGetExpr:
		return n[nameOf(e)]
	}
	return false
}

func (n numbers) learn(node any) {
	switch node := node.(type) {
	case *ast.LocalAssignStmt:
		for i, value := range node.Exprs {
			if i < len(node.Names) {
				n.give(node.Names[i], value)
			}
		}
	case *ast.AssignStmt:
		for i, value := range node.Rhs {
			n.give(nameOf(node.Lhs[i]), value)
		}
	case *ast.NumberForStmt:
		n[node.Name] = true
	case *ast.TableExpr:
		for _, field := range node.Fields {
			if key, named := field.Key.(*ast.StringExpr); named {
				n.give("."+key.Value, field.Value)
			}
		}
	}
}

// give notes what a name is assigned: a list what it holds.
func (n numbers) give(name string, value ast.Expr) {
	if n.has(value) {
		n[name] = true
	}
	list, _ := value.(*ast.TableExpr)
	for i := 0; list != nil && i < len(list.Fields); i++ {
		if list.Fields[i].Key == nil {
			n.give(name, list.Fields[i].Value)
		}
	}
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
