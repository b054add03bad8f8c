package kubelimit_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.New
	onEach  = limitertest.OnEach
	status  = limitertest.Status
)
