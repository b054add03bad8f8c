package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// late is by how much a caller may be back after its deadline, on a machine
// that has time for it.
const late = 50 * time.Millisecond

// bystanders are as many as callers, or so: where the system takes a processor
// away, goroutines wait for it and others do not.
const bystanders = 16

// bystander does nothing but wait for deadlines, while others are measured:
// what it is late by, they may be late by as well. On an idle machine that is
// under two milliseconds.
type bystander struct {
	mu    sync.Mutex
	worst time.Duration
}

func standBy(t *testing.T) *bystander {
	b := &bystander{}
	stopped, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for range bystanders {
		wg.Go(func() {
			for stopped.Err() == nil {
				b.wait(stopped)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		wg.Wait()
		t.Logf("a bystander was up to %v late", b.worst)
	})
	return b
}

func (b *bystander) wait(stopped context.Context) {
	const patience = 10 * time.Millisecond
	start := time.Now()
	ctx, cancel := context.WithTimeout(stopped, patience)
	defer cancel()
	done := make(chan struct{})
	go func() { // as a call has a goroutine between it and the server
		<-ctx.Done()
		close(done)
	}()
	<-done
	overrun := time.Since(start) - patience
	b.mu.Lock()
	defer b.mu.Unlock()
	b.worst = max(b.worst, overrun)
}

// prompt wants one who waited since start to be back in time. One who looks
// later than the bystander has been kept waiting like it.
func (b *bystander) prompt(t assert.TestingT, start time.Time, patience time.Duration, what string) time.Duration {
	took := time.Since(start)
	if took > patience+late { // the bystander has to have been late by now, or it is not the machine
		time.Sleep(20 * time.Millisecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.LessOrEqual(t, took, patience+late+2*b.worst, what)
	return took
}
