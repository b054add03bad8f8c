package fair

import (
	"testing"

	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Everywhere(t, func(t *testing.T, server redistest.Kind) { enginetest.Run(t, New, server) })
}
