package fairlimit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A field that is added to Trace and not passed on fails here.
func TestBothTracesAreToldOfEachEvent(t *testing.T) {
	var told []string
	telling := func(who string) *Trace {
		trace := &Trace{}
		v := reflect.ValueOf(trace).Elem()
		for i := range v.NumField() {
			f, event := v.Field(i), who+v.Type().Field(i).Name
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
				told = append(told, event)
				return nil
			}))
		}
		return trace
	}
	var none *Trace
	for name, c := range map[string]struct {
		trace *Trace
		who   []string
	}{
		"both":         {telling("a ").and(telling("b ")), []string{"a ", "b "}},
		"three":        {telling("a ").and(telling("b ")).and(telling("c ")), []string{"a ", "b ", "c "}},
		"the first":    {telling("a ").and(nil), []string{"a "}},
		"the second":   {none.and(telling("b ")), []string{"b "}},
		"one is empty": {telling("a ").and(&Trace{}).and(telling("b ")), []string{"a ", "b "}},
	} {
		v := reflect.ValueOf(c.trace).Elem()
		for i := range v.NumField() {
			f, event := v.Field(i), v.Type().Field(i).Name
			require.False(t, f.IsNil(), "%s: %s", name, event)
			args := make([]reflect.Value, f.Type().NumIn())
			for j := range args {
				args[j] = reflect.Zero(f.Type().In(j))
			}
			var want []string
			for _, who := range c.who {
				want = append(want, who+event)
			}
			told = nil
			f.Call(args)
			assert.Equal(t, want, told, name)
		}
	}
}

// With nil, a limiter compares once where it would tell, and an engine that
// nobody watches is not wrapped.
func TestNoTraceStaysNone(t *testing.T) {
	o, err := collect([]Option{WithTrace(nil), WithTrace(nil)})
	require.NoError(t, err)
	assert.Nil(t, o.trace)
}

// A trace that is given to two limiters, once beside another, stays as it is.
func TestATraceIsNotChanged(t *testing.T) {
	shared := &Trace{}
	_, err := collect([]Option{WithTrace(shared), WithTrace(&Trace{Lost: func() {}})})
	require.NoError(t, err)
	assert.Nil(t, shared.Lost)
}
