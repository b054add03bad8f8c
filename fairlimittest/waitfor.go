package fairlimittest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

// patience is how long WaitFor waits, on the clock of the test.
const patience = 30 * time.Second

// WaitFor returns as soon as at least that many permits are queued. It counts
// callers that sleep towards their turn, and reservations whose slot is still
// to come. It does not count a caller that goes at once. After 30 seconds on
// the clock of the test, the test fails. Call it from the goroutine of the
// test.
//
// The limiter has to come from [New]. For others, see [Server.WaitFor].
func WaitFor(t testing.TB, q *fairlimit.Queue, queued int) {
	t.Helper()
	s := ServerOf(q)
	if s == nil {
		t.Fatal("fairlimittest: WaitFor: New did not make this limiter: use Server.WaitFor")
	}
	s.WaitFor(t, q, queued)
}

// WaitFor is that of the package for any limiter that uses this server, such as
// one that [fairlimit.Open] makes of a name.
//
// It does not poll: it looks again when a client of the server has had an
// answer, since nothing else makes a queue longer.
func (s *Server) WaitFor(t testing.TB, l fairlimit.Limiter, queued int) {
	t.Helper()
	ctx := context.WithValue(context.WithoutCancel(t.Context()), looking{}, true)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		changed := s.nextChange()
		status, err := l.Status(ctx)
		if err != nil {
			t.Fatalf("fairlimittest: WaitFor: %v", err)
		}
		if status.Queued >= queued {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("fairlimittest: WaitFor: %d permits are queued after %v, want %d; "+
				"a caller that goes at once does not count", status.Queued, patience, queued)
		}
	}
}

// nextChange is closed after the next command.
func (s *Server) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// looking marks the ctx of what only looks, so that it does not wake itself.
type looking struct{}

// answered notes that a client of the server has had an answer.
func (s *Server) answered(ctx context.Context, cmd redis.Cmder, ask redis.ProcessHook) error {
	err := ask(ctx, cmd)
	if ctx.Value(looking{}) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return err
}
