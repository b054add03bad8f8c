package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
)

func TestAnIncidentThatTheEndOverhauledIsToldAndNoFault(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	incident := func(what string, do func(ctx context.Context) error) scenario.Incident {
		return scenario.Incident{What: what, Do: func(ctx context.Context, _ scenario.Stage) error { return do(ctx) }}
	}
	failed := errors.New("there is no such client")
	run := Trial{Load: scenario.Load{Duration: time.Second}, Scenario: scenario.Scenario{Incidents: []scenario.Incident{
		incident("this happened", func(context.Context) error { return nil }),
		incident("this failed", func(context.Context) error { return failed }),
		incident("this would have happened", func(ctx context.Context) error {
			end()
			return context.Cause(ctx)
		}),
	}}}
	happened, err := run.befall(ctx, measure.Now(), stage{})
	require.ErrorIs(t, err, failed)
	require.NotErrorIs(t, err, context.Canceled)
	require.Len(t, happened, 2)
	require.Equal(t, "this happened", happened[0].What)
	require.Equal(t, "the run ended, before this would have happened", happened[1].What)
}
