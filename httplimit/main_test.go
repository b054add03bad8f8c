package httplimit_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.Alone
	status  = limitertest.Status
)

type (
	pausing = limitertest.Pausing
	waiter  = limitertest.Waiter
)
