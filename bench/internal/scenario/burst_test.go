package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABurstIsAWholeNumberOfQuotasAndLeavesNobodyOut(t *testing.T) {
	for name, c := range map[string]struct{ permits, clients, callers, quotas int }{
		"few callers":   {permits: 20, clients: 4, callers: 2, quotas: 3},
		"no even split": {permits: 20, clients: 4, callers: 8, quotas: 3},
		"many callers":  {permits: 2, clients: 5, callers: 5, quotas: 13},
		"one by one":    {permits: 1, clients: 1, callers: 1, quotas: 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := Load{
				Quota: Quota{Permits: c.permits, Per: time.Second}, Guard: 10 * time.Millisecond,
				Clients: c.clients, Callers: c.callers,
			}
			total := 0
			for caller := range c.clients * c.callers {
				calls, every := burstOf(l, caller)
				require.Positive(t, calls)
				require.Equal(t, time.Duration(c.quotas+2)*l.Period(), every)
				total += calls
			}
			require.Equal(t, c.quotas*c.permits, total)
		})
	}
}
