package faults_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestNobodyLooksWhoWaitsForLessThanXOrIsBusy counts the reads that a server of
// its own is asked for.
func TestNobodyLooksWhoWaitsForLessThanXOrIsBusy(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	script := scriptOf(t, look)
	scripts := startMonitor(t, server.Addr())
	quota := fairlimit.Quota{Permits: 50, Per: time.Second, Burst: 1}
	queue := func(name string) fairlimit.Limiter {
		return named(t, server.Client(), t.Name()+name, quota, fairlimit.WithPauseWithin(time.Second))
	}
	short := queue("short")
	var all sync.WaitGroup
	for range 20 { // up to 0.4 s ahead, which leaves half a second to a slow answer
		all.Go(func() { assert.NoError(t, short.Wait(t.Context())) })
	}
	busy := queue("busy")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	time.AfterFunc(2500*time.Millisecond, stop)
	var longest atomic.Int64
	for range 75 { // 1.5 s ahead, again and again
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				if busy.Wait(ctx) == nil {
					longest.Store(max(longest.Load(), int64(time.Since(asked))))
				}
			}
		})
	}
	all.Wait()
	assert.Greater(t, time.Duration(longest.Load()), time.Second, "its callers wait for more than X")
	assert.Zero(t, scripts.count(script))

	idle, start := queue("idle"), time.Now()
	for range 100 { // up to 2 s ahead, and then nobody asks any more
		all.Go(func() { assert.NoError(t, idle.Wait(t.Context())) })
	}
	all.Wait()
	looks, took := scripts.count(script), time.Since(start)
	assert.True(t, 0 < looks && looks <= 1+int(4*took/(3*time.Second)), "%d looks in %v", looks, took)
}
