package luatest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// makesText are the functions that return text, or nil.
var makesText = strings.Fields("format sub match rep char concat gsub tostring")

// commands whose reply is text.
var commands = strings.Fields("GET GETRANGE HGET INFO TYPE")

// joinsOf returns what is joined with '..' and not known to be text: a literal,
// what makes text, an element of KEYS and ARGV, or a name that nothing else is
// ever given to. Elements of a table have its name, or that of their field.
//
// It takes a chunk in which each local has a name of its own: see [namesOf].
func joinsOf(chunk []ast.Stmt) (problems []string) {
	known := texts{map[string][]ast.Expr{".err": nil}, map[string][]string{}}
	each(chunk, known.learn)
	each(chunk, known.call)
	each(chunk, func(_ ast.Stmt, e ast.Expr) {
		switch e := e.(type) {
		case *ast.StringConcatOpExpr:
			for _, side := range []ast.Expr{e.Lhs, e.Rhs} {
				if !known.text(side, nil) {
					problems = append(problems, fmt.Sprintf("line %d: %s", side.Line(), localName(nameOf(side))))
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

// texts are what each name is ever given: a function's, what it returns.
type texts struct {
	given      map[string][]ast.Expr
	parameters map[string][]string // of a function
}

// unknown stands for what a name is given that cannot be told.
var unknown = &ast.TrueExpr{}

func (k *texts) learn(stmt ast.Stmt, e ast.Expr) {
	switch stmt := stmt.(type) {
	case *ast.LocalAssignStmt:
		var targets []ast.Expr
		for _, name := range stmt.Names {
			targets = append(targets, &ast.IdentExpr{Value: name})
		}
		k.assign(targets, stmt.Exprs)
	case *ast.AssignStmt:
		k.assign(stmt.Lhs, stmt.Rhs)
	case *ast.NumberForStmt:
		k.give(stmt.Name, unknown)
	case *ast.GenericForStmt:
		for _, name := range stmt.Names {
			k.give(name, unknown)
		}
	}
	if table, is := e.(*ast.TableExpr); is {
		for _, field := range table.Fields {
			if key, named := field.Key.(*ast.StringExpr); named {
				k.give("."+key.Value, field.Value)
			}
		}
	}
}

// call gives a function's parameters what it is called with.
func (k *texts) call(_ ast.Stmt, e ast.Expr) {
	if call, is := e.(*ast.FuncCallExpr); is {
		for i, name := range k.parameters[nameOf(call.Func)] {
			if i < len(call.Args) {
				k.give(name, call.Args[i])
			}
		}
	}
}

// assign goes through what several names are given at once. A call at the end
// is for all that are left.
func (k *texts) assign(targets, values []ast.Expr) {
	for i, target := range targets {
		name, last := nameOf(target), len(values)-1
		switch {
		case last < 0:
			k.give(name, &ast.NilExpr{})
		case i < last:
			k.assignOne(name, values[i])
		default:
			k.give(name, nthOf(values[last], i-last))
			k.assignOne(name, values[last])
		}
	}
}

// nthOf is what is known of the n-th result of a call: match gives a number for
// '()', and text for all else in brackets.
func nthOf(e ast.Expr, n int) ast.Expr {
	call, is := e.(*ast.FuncCallExpr)
	if !is || localName(nameOf(call.Func)) != "match" {
		return &ast.NilExpr{}
	}
	pattern, plain := call.Args[1].(*ast.StringExpr)
	if !plain {
		return &ast.NilExpr{}
	}
	for i, capture := range strings.Split(strings.ReplaceAll(pattern.Value, "%(", ""), "(")[1:] {
		if i == n && capture[0] == ')' {
			return unknown
		}
	}
	return &ast.NilExpr{}
}

func (k *texts) assignOne(name string, value ast.Expr) {
	switch v := value.(type) {
	case *ast.FunctionExpr:
		k.parameters[name] = v.ParList.Names
		for _, parameter := range v.ParList.Names {
			k.give(parameter, &ast.NilExpr{})
		}
		k.returns(name, v)
	case *ast.TableExpr:
		k.give(name, &ast.NilExpr{})
		for _, field := range v.Fields {
			if _, named := field.Key.(*ast.StringExpr); !named {
				k.give(name, field.Value)
			}
		}
	default:
		k.give(name, value)
	}
}

func (k *texts) give(name string, value ast.Expr) { k.given[name] = append(k.given[name], value) }

// returns notes what a function returns first, nil if nothing. A function within
// it counts as well.
func (k *texts) returns(name string, f *ast.FunctionExpr) {
	k.give(name, &ast.NilExpr{})
	each(f.Stmts, func(stmt ast.Stmt, _ ast.Expr) {
		if r, is := stmt.(*ast.ReturnStmt); is && len(r.Exprs) > 0 {
			k.give(name, r.Exprs[0])
		}
	})
}

// text reports whether an expression is text or nil. Names that lead to
// themselves add nothing.
func (k *texts) text(e ast.Expr, asked []string) bool {
	switch e := e.(type) {
	case *ast.StringExpr, *ast.NilExpr, *ast.FalseExpr, *ast.StringConcatOpExpr:
		return true
	case *ast.LogicalOpExpr:
		return (e.Operator == "and" || k.text(e.Lhs, asked)) && k.text(e.Rhs, asked)
	case *ast.FuncCallExpr:
		return k.textual(e, asked)
	case *ast.IdentExpr, *ast.AttrGetExpr:
		return k.name(nameOf(e), asked)
	}
	return false
}

// textual reports whether a call returns text.
func (k *texts) textual(call *ast.FuncCallExpr, asked []string) bool {
	name := nameOf(call.Func)
	switch local := localName(name); {
	case local == "call" || local == "pcall":
		command, plain := call.Args[0].(*ast.StringExpr)
		return plain && slices.Contains(commands, command.Value)
	case slices.Contains(makesText, local):
		return true
	}
	return k.name(name, asked)
}

func (k *texts) name(name string, asked []string) bool {
	if name == "KEYS" || name == "ARGV" || slices.Contains(asked, name) {
		return true
	}
	values, given := k.given[name]
	for _, value := range values {
		if !k.text(value, append(asked, name)) {
			return false
		}
	}
	return given
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

// localName is a name as the script has it.
func localName(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "."), "#")
	return name
}
