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

func TestAnIncidentThatTheEndOverhauledIsNoFault(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	failed := errors.New("there is no such client")
	run := Trial{Load: scenario.Load{Duration: time.Second}, Scenario: scenario.Scenario{Incidents: []scenario.Incident{
		{What: scenario.Suspend}, {What: scenario.Resume}, {What: scenario.Kill},
	}}}
	happened, err := run.befall(ctx, measure.Now(), func(ctx context.Context, deed scenario.Deed) error {
		switch deed {
		case scenario.Resume:
			return failed
		case scenario.Kill:
			end()
		}
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, failed)
	require.NotErrorIs(t, err, context.Canceled)
	require.Len(t, happened, 1)
	require.EqualValues(t, scenario.Suspend, happened[0].What)
}
