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

func TestHistories(t *testing.T) {
	t.Parallel()
	const ms = 1000
	text, err := os.ReadFile("testdata/histories.json")
	require.NoError(t, err)
	var all []history
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 80)
	for _, h := range all {
		var windows []Window
		for _, q := range h.Quotas {
			windows = append(windows, Windows(q.Permits, q.PerMS*ms, q.Burst)...)
		}
		q, held := Queue{Units: [][]Window{windows}}, map[int]turn{}
		for i, s := range h.Steps {
			now := s.AtMS * ms
			if s.Op == "cancel" {
				if of := held[s.Of]; of.slot > now { // those that have passed stay
					q.GiveBack(of.slot, of.n)
				}
				delete(held, s.Of)
				continue
			}
			slot, granted := q.Take(now, s.MaxWaitMS*ms, s.N)
			require.Equal(t, !s.Refused, granted, "%s, step %d: %+v", h.Name, i, s)
			require.InDelta(t, s.WaitMS*ms, slot-now, 2*ms, "%s, step %d: %+v", h.Name, i, s)
			if granted {
				held[s.ID] = turn{slot, s.N}
			}
		}
	}
}

type turn struct {
	slot int64
	n    int
}
