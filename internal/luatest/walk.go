package luatest

import (
	"reflect"

	"github.com/yuin/gopher-lua/ast"
)

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
