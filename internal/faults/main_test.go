package faults_test

import (
	"flag"
	"testing"

	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestMain holds the whole binary to what a limiter promises: no goroutine is
// left when nobody uses it.
//
// Most tests here wait: for a timeout, for a failover, for a server to start.
// So more of them run at a time than there are processors. -parallel still sets
// how many.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
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
