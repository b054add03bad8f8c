package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// stage stands where package redistest expects a test, so that a program can
// have its servers and proxies. Its TB is nil. Outside of a test, redistest
// calls only the methods that stage has.
type stage struct {
	testing.TB
	ctx  context.Context
	ends []func()
}

// failure is what a stage panics with in place of ending a test.
type failure struct{ error }

func (s *stage) Helper()                       {}
func (s *stage) Context() context.Context      { return s.ctx }
func (s *stage) Cleanup(end func())            { s.ends = append(s.ends, end) }
func (s *stage) Fatal(args ...any)             { panic(failure{errors.New(fmt.Sprint(args...))}) }
func (s *stage) Fatalf(text string, as ...any) { panic(failure{fmt.Errorf(text, as...)}) }
func (s *stage) Skipf(text string, as ...any)  { s.Fatalf(text, as...) }

// end cleans up, the latest first.
func (s *stage) end() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

// attempt returns what a stage failed with.
func attempt(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}
