package fair

import (
	"testing"

	"github.com/fairlimit/fairlimit/engine/enginetest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	redistest.Everywhere(t, func(t *testing.T, server redistest.Kind) { enginetest.Run(t, New, server) })
}
