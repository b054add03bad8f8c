// Package stage stands where package redistest expects a test, so that a
// program can have its servers and proxies.
package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Stage is what takes a test's place. Its TB is nil: outside of a test,
// redistest calls only the methods that Stage has.
type Stage struct {
	testing.TB
	ctx  context.Context
	ends []func()
}

// New makes one. End it.
func New(ctx context.Context) *Stage { return &Stage{ctx: ctx} }

// failure is what a stage panics with in place of ending a test.
type failure struct{ error }

// Helper does nothing.
func (s *Stage) Helper() {}

// Context is the one that the stage was made with.
func (s *Stage) Context() context.Context { return s.ctx }

// Cleanup has something called when the stage ends.
func (s *Stage) Cleanup(end func()) { s.ends = append(s.ends, end) }

// Fatal ends the [Attempt].
func (s *Stage) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf ends the [Attempt].
func (s *Stage) Fatalf(text string, as ...any) { panic(failure{fmt.Errorf(text, as...)}) }

// Skipf ends the [Attempt].
func (s *Stage) Skipf(text string, as ...any) { s.Fatalf(text, as...) }

// End cleans up, the latest first.
func (s *Stage) End() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

// Attempt returns what a stage failed with.
func Attempt(do func()) (err error) {
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
