package luatest

import "github.com/yuin/gopher-lua/ast"

// partsOf are the expressions and the blocks of a statement that declares
// nothing.
func partsOf(stmt ast.Stmt) (expressions []ast.Expr, blocks [][]ast.Stmt) {
	switch stmt := stmt.(type) {
	case *ast.AssignStmt:
		return append(append(expressions, stmt.Lhs...), stmt.Rhs...), nil
	case *ast.FuncCallStmt:
		return []ast.Expr{stmt.Expr}, nil
	case *ast.ReturnStmt:
		return stmt.Exprs, nil
	case *ast.DoBlockStmt:
		return nil, [][]ast.Stmt{stmt.Stmts}
	case *ast.WhileStmt:
		return []ast.Expr{stmt.Condition}, [][]ast.Stmt{stmt.Stmts}
	case *ast.RepeatStmt:
		return []ast.Expr{stmt.Condition}, [][]ast.Stmt{stmt.Stmts}
	case *ast.IfStmt:
		return []ast.Expr{stmt.Condition}, [][]ast.Stmt{stmt.Then, stmt.Else}
	case *ast.FuncDefStmt:
		return []ast.Expr{stmt.Name.Func, stmt.Name.Receiver, stmt.Func}, nil
	}
	return nil, nil
}

// operandsOf are the expressions that one is made of, nil if it is a name, a
// literal or a function.
func operandsOf(e ast.Expr) []ast.Expr {
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		return []ast.Expr{e.Object, e.Key}
	case *ast.TableExpr:
		var all []ast.Expr
		for _, field := range e.Fields {
			all = append(all, field.Key, field.Value)
		}
		return all
	case *ast.FuncCallExpr:
		return append([]ast.Expr{e.Func, e.Receiver}, e.Args...)
	case *ast.LogicalOpExpr:
		return []ast.Expr{e.Lhs, e.Rhs}
	case *ast.RelationalOpExpr:
		return []ast.Expr{e.Lhs, e.Rhs}
	case *ast.StringConcatOpExpr:
		return []ast.Expr{e.Lhs, e.Rhs}
	case *ast.ArithmeticOpExpr:
		return []ast.Expr{e.Lhs, e.Rhs}
	case *ast.UnaryMinusOpExpr:
		return []ast.Expr{e.Expr}
	case *ast.UnaryNotOpExpr:
		return []ast.Expr{e.Expr}
	case *ast.UnaryLenOpExpr:
		return []ast.Expr{e.Expr}
	}
	return nil
}

// each calls f for every statement and every expression of a block, those of
// functions too.
func each(block []ast.Stmt, f func(ast.Stmt, ast.Expr)) {
	var expressions func(all ...ast.Expr)
	expressions = func(all ...ast.Expr) {
		for _, e := range all {
			if e == nil {
				continue
			}
			f(nil, e)
			if function, is := e.(*ast.FunctionExpr); is {
				each(function.Stmts, f)
			}
			expressions(operandsOf(e)...)
		}
	}
	for _, stmt := range block {
		f(stmt, nil)
		all, blocks := partsOf(stmt)
		switch stmt := stmt.(type) {
		case *ast.LocalAssignStmt:
			all = stmt.Exprs
		case *ast.NumberForStmt:
			all, blocks = []ast.Expr{stmt.Init, stmt.Limit, stmt.Step}, [][]ast.Stmt{stmt.Stmts}
		case *ast.GenericForStmt:
			all, blocks = stmt.Exprs, [][]ast.Stmt{stmt.Stmts}
		}
		expressions(all...)
		for _, body := range blocks {
			each(body, f)
		}
	}
}
