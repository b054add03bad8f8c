// Package clock sleeps on the monotonic clock: a step of the wall clock moves
// nobody's turn.
package clock

import (
	"context"
	"time"
)

// Sleep returns nil once d has passed, or ctx's error as soon as ctx has ended.
// It never returns nil early. Where both hold, nil wins: a turn that has come
// is a turn.
func Sleep(ctx context.Context, d time.Duration) error {
	return SleepUntil(ctx, time.Now().Add(d))
}

// SleepUntil is [Sleep] until t, which must carry a monotonic reading: one from
// time.Now, moved by Add.
func SleepUntil(ctx context.Context, t time.Time) error { return NapUntil(ctx, t, nil) }

// NapUntil is [SleepUntil], and returns nil as soon as woken is closed as well.
func NapUntil(ctx context.Context, t time.Time, woken <-chan struct{}) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-woken:
		return nil
	case <-ctx.Done():
		if time.Until(t) <= 0 {
			return nil
		}
		return ctx.Err()
	}
}
