package fairlimit

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/duration"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// Quota is the upstream's rule: at most Permits in ANY window of length Per,
// however the window is placed in time.
//
// The zero value is not a quota: [New] refuses it. Per counts in whole
// microseconds. A finer Per is rounded up, which is the safe side.
type Quota struct {
	Permits int           // at least 1
	Per     time.Duration // at least a microsecond

	// Burst is at most how many permits go at one moment. With 100 permits a
	// minute and a Burst of 10, ten go together, and the next ten 6 s later: at
	// most Burst fall into any window of length Per × Burst ÷ Permits. Unlike the
	// burst of a token bucket it never makes a quota larger. 0 means Permits; 1
	// means evenly spaced.
	Burst int
}

// Every is one permit every d. The unit of d counts: [New] refuses Every(1),
// which is a nanosecond. For one a second, write Every(time.Second).
func Every(d time.Duration) Quota { return Quota{Permits: 1, Per: d} }

// PerSecond is n permits in any window of one second. They may go together:
// PerSecond(5) lets five callers go at the same moment, and then none until a
// second is over. To space them, use Every(200*time.Millisecond), or a Burst:
//
//	Quota{Permits: 5, Per: time.Second, Burst: 1}
func PerSecond(n int) Quota { return Quota{Permits: n, Per: time.Second} }

// PerMinute is n permits in any window of one minute. As with [PerSecond], they
// may go together.
func PerMinute(n int) Quota { return Quota{Permits: n, Per: time.Minute} }

// PerHour is n permits in any window of one hour. As with [PerSecond], they may
// go together.
func PerHour(n int) Quota { return Quota{Permits: n, Per: time.Hour} }

// String is the quota as a person would write it: "20/1s", "100/2m burst 10".
func (q Quota) String() string { return quotatext.Format(engine.Quota(q)) }

// ParseQuota reads what [Quota.String] writes. Per is written as for
// [time.ParseDuration], with sec, min, hour and day as further units, or as a
// unit alone: "10/s", "10 / min". For any other text the error matches
// [ErrInvalidQuota].
func ParseQuota(text string) (Quota, error) {
	parsed, err := quotatext.ParseOne(text)
	if err != nil {
		return Quota{}, fmt.Errorf("%w: %w", ErrInvalidQuota, err)
	}
	return Quota(parsed), nil
}

func (q Quota) check() error { return q.checkOf("") }

// checkOf is check for a quota that was given to what the text names.
func (q Quota) checkOf(given string) error {
	switch {
	case q.Permits < 1:
		return fmt.Errorf("%w: %sPermits is %d, want at least 1", ErrInvalidQuota, given, q.Permits)
	case duration.Positive(q.Per) != nil:
		return fmt.Errorf("%w: %sPer is %w", ErrInvalidQuota, given, duration.Positive(q.Per))
	case q.Burst < 0 || q.Burst > q.Permits:
		return fmt.Errorf("%w: %sBurst is %d, want 0 to Permits, which is %d",
			ErrInvalidQuota, given, q.Burst, q.Permits)
	}
	return nil
}
