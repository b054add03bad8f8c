package model

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// history is a sequence of calls with the waits that the definition demands,
// worked out by brute force.
type history struct {
	Name   string
	Quotas []struct {
		Permits int
		PerMS   int64 `json:"per_ms"`
		Burst   int
	}
	Steps []struct {
		AtMS      int64 `json:"at_ms"`
		Op        string
		ID, Of, N int
		MaxWaitMS int64 `json:"max_wait_ms"`
		WaitMS    int64 `json:"wait_ms"`
		Refused   bool
	}
}

func TestExactIsTheDefinitionInHistories(t *testing.T) {
	t.Parallel()
	const ms = 1000
	text, err := os.ReadFile("testdata/histories.json")
	require.NoError(t, err)
	var all []history
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 80)
	for _, h := range all {
		e, held := Exact{}, map[int]Turn{}
		for _, q := range h.Quotas {
			e.Windows = append(e.Windows, Windows(q.Permits, q.PerMS*ms, q.Burst)...)
		}
		for i, s := range h.Steps {
			now := beginning + s.AtMS*ms
			if s.Op == "cancel" {
				e.Release(now, held[s.Of])
				continue
			}
			slot, granted := e.Take(now, s.N, s.MaxWaitMS*ms)
			require.Equal(t, !s.Refused, granted, "%s, step %d: %+v", h.Name, i, s)
			require.InDelta(t, s.WaitMS*ms, slot-now, 2*ms, "%s, step %d: %+v", h.Name, i, s)
			if granted {
				held[s.ID] = Turn{slot, s.N}
			}
		}
	}
}
