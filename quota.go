package fairlimit

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Quota is the upstream's rule: at most Permits in ANY window of length Per,
// however the window is placed in time.
//
// The zero value is not a quota: [New] refuses it. Per counts in whole
// microseconds; a finer Per is rounded up, which is the safe side.
type Quota struct {
	Permits int           // at least 1
	Per     time.Duration // more than 0

	// Burst is how many may go back to back: at most Burst permits fall into
	// any Per × Burst ÷ Permits. It makes a quota smoother, never larger, and
	// is no token bucket. 0 means Permits, 1 means evenly spaced.
	Burst int
}

// Every is one permit every d. Every(1) is one every nanosecond, which counts as
// one every microsecond: for a second, write Every(time.Second).
func Every(d time.Duration) Quota { return Quota{Permits: 1, Per: d} }

// PerSecond is n permits in any second.
func PerSecond(n int) Quota { return Quota{Permits: n, Per: time.Second} }

// PerMinute is n permits in any minute.
func PerMinute(n int) Quota { return Quota{Permits: n, Per: time.Minute} }

// PerHour is n permits in any hour.
func PerHour(n int) Quota { return Quota{Permits: n, Per: time.Hour} }

// String is the quota as a person would write it: "20/1s", "100/2m burst 10".
func (q Quota) String() string { return quotatext.Format(engine.Quota(q)) }

// ParseQuota reads what [Quota.String] writes. Per is a duration as of
// [time.ParseDuration]. An error matches [ErrInvalidQuota].
func ParseQuota(text string) (Quota, error) {
	parsed, err := quotatext.ParseOne(text)
	if err != nil {
		return Quota{}, fmt.Errorf("%w: %w", ErrInvalidQuota, err)
	}
	q := Quota(parsed)
	if err := q.check(); err != nil {
		return Quota{}, err
	}
	return q, nil
}

func (q Quota) check() error {
	switch {
	case q.Permits < 1:
		return fmt.Errorf("%w: Permits is %d, want at least 1", ErrInvalidQuota, q.Permits)
	case q.Per <= 0:
		return fmt.Errorf("%w: Per is %v, want more than 0", ErrInvalidQuota, q.Per)
	case q.Burst < 0 || q.Burst > q.Permits:
		return fmt.Errorf("%w: Burst is %d, want 0 to Permits, which is %d", ErrInvalidQuota, q.Burst, q.Permits)
	}
	return nil
}
