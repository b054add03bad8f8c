package httplimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.New
	onEach  = limitertest.OnEach
	status  = limitertest.Status
)

// pausing is a limiter that can pause. It writes down how long, and answers as
// the test says.
type pausing struct {
	fairlimit.Limiter
	answer func(ctx context.Context) error // nil answers yes

	mu     sync.Mutex
	pauses []time.Duration
}

func (p *pausing) Pause(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	p.pauses = append(p.pauses, d)
	p.mu.Unlock()
	if p.answer == nil {
		return nil
	}
	return p.answer(ctx)
}

func (p *pausing) paused() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses
}

// waiter is a limiter that can do nothing but wait.
type waiter func(ctx context.Context) error

func (w waiter) Wait(ctx context.Context) error { return w(ctx) }
