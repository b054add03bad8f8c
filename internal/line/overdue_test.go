package line_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/line"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// dutiful is an engine that gives up at the moment of its deadline.
type dutiful struct{ engine.Engine }

func (dutiful) Take(ctx context.Context, _ []engine.Request) ([]engine.Answer, engine.News, error) {
	<-ctx.Done()
	return nil, engine.News{}, ctx.Err()
}

// The answer was handed out, and then the question counted as overdue: its callers got
// a second answer, and the line stood still.
func TestAQuestionThatEndsAsItIsOverdueEndsOnce(t *testing.T) {
	for range 300 {
		l := &line.Line{Engine: dutiful{}, Patience: 200 * time.Microsecond, Away: func(error) bool { return true }}
		var callers errgroup.Group
		for i := range 40 {
			callers.Go(func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%2*10000+100)*time.Microsecond)
				defer cancel()
				if _, err := l.Ask(ctx, line.Request{N: 1}); err == nil {
					return errors.New("granted by nobody")
				}
				return nil
			})
		}
		require.NoError(t, callers.Wait())
	}
}

// slow is an engine whose status comes too late, once Redis was away.
type slow struct {
	fake
	away bool
}

func (s *slow) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	if !s.away {
		s.away = true
		return nil, engine.News{}, engine.ErrUnreachable
	}
	return make([]engine.Answer, len(requests)), engine.News{}, nil
}

func (s *slow) Status(context.Context) (engine.Status, error) {
	time.Sleep(3 * time.Second)
	return engine.Status{}, nil
}

// The question of a caller that wanted a turn at once lost it, and asked for nobody.
func TestALateStatusOfAnOverdueQuestionHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line.Line{
			Engine: &slow{}, Patience: 2 * time.Second, Retry: true, Away: func(error) bool { return true },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := l.Ask(ctx, line.Request{N: 1})
		require.ErrorIs(t, err, engine.ErrUnreachable)
		_, err = l.Ask(t.Context(), line.Request{N: 1, Now: true})
		require.ErrorIs(t, err, timeout.ErrOverdue)
		time.Sleep(10 * time.Second)
	})
}

func TestWhoStoodBehindACallerThatLeavesIsAskedFor(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		ctx, cancel := context.WithCancel(t.Context())
		first := asks(ctx, l, line.Request{N: 10})
		(<-e.asked).notYet(time.Minute)
		synctest.Wait()
		second := asks(t.Context(), l, line.Request{N: 1})
		cancel()
		require.ErrorIs(t, (<-first).err, context.Canceled)
		began := time.Now()
		(<-e.asked).grants()
		require.NoError(t, (<-second).err)
		require.Zero(t, time.Since(began))
	})
}

// They came back within microseconds, in any order.
func TestRequeuedCallersStandInTheOrderOfTheirSlots(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		done := []<-chan reply{asks(t.Context(), l, line.Request{N: 9})}
		under := <-e.asked
		for _, slot := range []int64{30, 10, 20} {
			done = append(done, asks(t.Context(), l, line.Request{N: int(slot), WasVoid: true, Slot: slot}))
		}
		under.grants()
		next := <-e.asked
		require.Equal(t, []int{10, 20, 30}, next.permits())
		next.grants()
		for _, d := range done {
			require.NoError(t, (<-d).err)
		}
	})
}
