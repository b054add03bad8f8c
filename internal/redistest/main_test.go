package redistest_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4)
	redistest.Main(m)
}
