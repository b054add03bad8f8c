package faults_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit"
)

// crowd is callers that ask for a permit again and again, and what they got.
type crowd struct {
	went, refused, unknown atomic.Int64
	stop                   func() // returns when all have ended
}

// startCrowd starts a crowd. Any error but [fairlimit.ErrOutcomeUnknown] has to
// be one that may come.
func startCrowd(t *testing.T, l fairlimit.Limiter, callers int, pause time.Duration, may func(error) bool) *crowd {
	c := &crowd{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				allowed, err := l.Allow(context.WithoutCancel(ctx))
				switch {
				case allowed:
					c.went.Add(1)
				case err == nil:
					c.refused.Add(1)
				case errors.Is(err, fairlimit.ErrOutcomeUnknown):
					c.unknown.Add(1)
				default:
					assert.True(t, may(err), "%v", err)
				}
				time.Sleep(pause) // or the permits would be gone at once
			}
		})
	}
	c.stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(c.stop)
	return c
}

func noError(error) bool { return false }

// accounts requires that each call that succeeded consumed once, each without an
// answer once or not at all, and no other.
func accounts(t *testing.T, used int, went, unknown int64) {
	t.Helper()
	t.Logf("%d went, %d left open, %d used", went, unknown, used)
	assert.GreaterOrEqual(t, int64(used), went)
	assert.LessOrEqual(t, int64(used), went+unknown)
}
