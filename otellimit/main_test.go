package otellimit_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestMain fails if a goroutine is left when nobody uses a limiter any more.
func TestMain(m *testing.M) { redistest.Main(m) }
