package fairlimittest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// standIn is a t for examples, and for what is to fail.
type standIn struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
	failure  string
}

// aTest returns a t, and what ends its test.
func aTest() (t *standIn, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t = &standIn{ctx: ctx}
	return t, func() {
		cancel()
		for _, cleanup := range slices.Backward(t.cleanups) {
			cleanup()
		}
	}
}

func (t *standIn) Helper()                  {}
func (t *standIn) Name() string             { return "Test" }
func (t *standIn) Context() context.Context { return t.ctx }
func (t *standIn) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }

func (t *standIn) Fatal(args ...any) {
	t.failure = fmt.Sprint(args...)
	runtime.Goexit()
}

func (t *standIn) Fatalf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// failureOf is what f fails a test with.
func failureOf(f func(t testing.TB)) string {
	t, end := aTest()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer end()
		f(t)
	}()
	<-done
	return t.failure
}
