package fairlimittest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

// sendReport is what somebody tests.
func sendReport(ctx context.Context, limiter fairlimit.Limiter) error { return limiter.Wait(ctx) }

func TestReportsGoOutOneAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairlimittest.New(t, fairlimit.Every(time.Minute))
		began := time.Now()
		for range 61 {
			if err := sendReport(t.Context(), limiter); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("61 reports took %v, want an hour", took)
		}
	})
}
