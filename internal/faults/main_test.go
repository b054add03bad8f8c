package faults_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestMain holds the whole binary to what a limiter promises: no goroutine is
// left when nobody uses it.
func TestMain(m *testing.M) {
	redistest.Parallel(12)
	redistest.Main(m)
}

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
	calls   = limitertest.Calls
	engines = limitertest.Engines
	nowhere = redistest.Nowhere
)
