package anthropic_test

import (
	"testing"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
