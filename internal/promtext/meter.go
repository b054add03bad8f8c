package promtext

import (
	"time"

	"github.com/fairlimit/fairlimit/internal/metrics"
)

// meter takes what is counted as it happens.
type meter Metrics

var _ metrics.Meter = (*meter)(nil)

func (m *meter) Waited(d time.Duration)           { m.wait.observe(d.Seconds()) }
func (m *meter) Permits(o metrics.Outcome, n int) { m.permits[o].Add(int64(n)) }
func (m *meter) Woke(lateness time.Duration)      { m.lateness.observe(lateness.Seconds()) }
func (m *meter) Shared(callers int)               { m.shared.observe(float64(callers)) }
func (m *meter) Paused()                          { m.pauses.Add(1) }
func (m *meter) Lost()                            { m.losses.Add(1) }
func (m *meter) Settled(unit string, reserved, used int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := m.settled[unit]
	for i, n := range metrics.PartsOf(reserved, used) {
		sums[i] += n
	}
	m.settled[unit] = sums
}

func (m *meter) Asked(op string, failed bool) {
	i := 0
	if failed {
		i = 1
	}
	if counts := m.questions[op]; counts != nil { // else an op that metrics.Ops lacks
		counts[i].Add(1)
	}
}
