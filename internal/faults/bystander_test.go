package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// late is how long after its deadline a caller may return, on an idle machine.
const late = 50 * time.Millisecond

// answerDue is how long a question may take, whatever the client's timeouts are.
const answerDue = 5 * time.Second

// bystanders is about how many callers there are. When the system takes a
// processor away, the goroutines that wait for it are late, and the others are
// not.
const bystanders = 16

// bystander waits for deadlines and does nothing else, while callers are
// measured. They may be as late as it is. On an idle machine that is under two
// milliseconds.
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

// prompt fails the test if a call with a deadline is back too late.
func (b *bystander) prompt(
	t *testing.T, patience time.Duration, what string, call func(context.Context) error,
) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := call(ctx)
	b.back(t, start, patience, what)
	return err
}

// overdue is the same for a call without a deadline: it is back when its question
// has had its time.
func (b *bystander) overdue(t *testing.T, what string, call func(context.Context) error) error {
	start := time.Now()
	err := call(context.WithoutCancel(t.Context()))
	b.back(t, start, answerDue, what)
	return err
}

// back fails the test if the caller, who has waited since start, is back too
// late. It allows for twice what the bystander was late by.
func (b *bystander) back(t *testing.T, start time.Time, patience time.Duration, what string) {
	took := time.Since(start)
	if took > patience+late { // the bystander has to have been late by now, or it is not the machine
		time.Sleep(20 * time.Millisecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.LessOrEqual(t, took, patience+late+2*b.worst, what)
}
