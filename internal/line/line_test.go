package line_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/line"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// fake is an engine that answers as the test says, when the test says.
type fake struct {
	engine.Engine
	asked chan question

	mu       sync.Mutex
	returned [][]engine.Return
	statuses int
	status   error
	takes    time.Duration // until a status is told
}

// question is one Take that waits for its answer.
type question struct {
	requests []engine.Request
	answer   chan<- outcome
}

type outcome struct {
	answers []engine.Answer
	err     error
}

func newLine() (*fake, *line.Line) {
	e := &fake{asked: make(chan question)}
	return e, &line.Line{
		Engine: e, Patience: time.Minute,
		Away: func(err error) bool {
			return errors.Is(err, engine.ErrUnreachable) || errors.Is(err, engine.ErrOutcomeUnknown)
		},
	}
}

func (e *fake) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	answer := make(chan outcome)
	e.asked <- question{requests, answer}
	o := <-answer
	return o.answers, engine.News{Arrived: time.Now()}, o.err
}

func (e *fake) GiveBack(_ context.Context, returns []engine.Return) error {
	e.mu.Lock()
	e.returned = append(e.returned, returns)
	e.mu.Unlock()
	time.Sleep(time.Second)
	return nil
}

func (e *fake) Status(context.Context) (engine.Status, error) {
	e.mu.Lock()
	e.statuses++
	takes, status := e.takes, e.status
	e.mu.Unlock()
	time.Sleep(takes)
	return engine.Status{}, status
}

func (q question) permits() (all []int) {
	for _, r := range q.requests {
		all = append(all, r.N)
	}
	return all
}

func (q question) fails(err error) { q.answer <- outcome{err: err} }
func (q question) grants()         { q.answers(engine.Answer{Verdict: engine.Granted}) }

// notYet lets all ask again after d.
func (q question) notYet(d time.Duration) { q.answers(engine.Answer{Verdict: engine.NotYet, Wait: d}) }

func (q question) answers(same engine.Answer) {
	answers := make([]engine.Answer, len(q.requests))
	for i, r := range q.requests {
		answers[i], answers[i].Turn = same, engine.Turn{N: r.N}
	}
	q.answer <- outcome{answers: answers}
}

type reply struct {
	*line.Reply
	err error
}

// asks lets a caller stand in line.
func asks(ctx context.Context, l *line.Line, r line.Request) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		got, err := l.Ask(ctx, r)
		done <- reply{got, err}
	}()
	synctest.Wait()
	return done
}

func test(t *testing.T, f func(t *testing.T, e *fake, l *line.Line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, l := newLine()
		f(t, e, l)
		time.Sleep(time.Hour) // the line is idle again, or the bubble is not over
	})
}

func TestCallersThatComeDuringAQuestionGoOutTogetherInTheNext(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		var all []<-chan reply
		for n := range 300 {
			all = append(all, asks(t.Context(), l, line.Request{N: n}))
		}
		next := 0
		for _, size := range []int{1, engine.MostRequests, 300 - 1 - engine.MostRequests} {
			q := <-e.asked
			require.Len(t, q.requests, size)
			q.grants()
			for range size {
				require.Equal(t, next, (<-all[next]).Turn.N)
				next++
			}
		}
	})
}

func TestHowLongACallerAcceptsToWaitIsWorkedOutWhenItsQuestionIsSent(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		asks(t.Context(), l, line.Request{N: 1})
		first := <-e.asked
		over := asks(t.Context(), l, line.Request{N: 5, Latest: time.Now().Add(time.Second)})
		for _, r := range []line.Request{{N: 2, Latest: time.Now().Add(3 * time.Second)}, {N: 3, Now: true}, {N: 4}} {
			asks(t.Context(), l, r)
		}
		time.Sleep(time.Second)
		first.grants()
		assert.Equal(t, engine.Refused, (<-over).Verdict)
		second := <-e.asked
		require.Equal(t, []int{2, 3, 4}, second.permits())
		for i, want := range []time.Duration{2 * time.Second, 0, engine.Forever} {
			assert.Equal(t, want, second.requests[i].MaxWait)
		}
		second.grants()
	})
}

// leaving is an engine whose callers leave as it answers.
type leaving struct {
	engine.Engine
	leave    func()
	returned atomic.Int64
}

func (e *leaving) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, engine.News, error) {
	e.leave()
	return []engine.Answer{{Verdict: engine.Granted, Turn: engine.Turn{N: requests[0].N}}}, engine.News{}, nil
}

func (e *leaving) GiveBack(_ context.Context, returns []engine.Return) error {
	e.returned.Add(int64(len(returns)))
	return nil
}

func TestWhatIsGrantedIsTakenOrGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, granted, taken := &leaving{}, 2000, 0
		l := &line.Line{Engine: e, Patience: time.Minute}
		for range granted {
			ctx, leave := context.WithCancel(t.Context())
			e.leave = leave
			if _, err := l.Ask(ctx, line.Request{N: 1}); err == nil {
				taken++
			}
			synctest.Wait()
		}
		assert.EqualValues(t, granted-taken, e.returned.Load())
	})
}

func TestReturnsTravelTogether(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		for n := 1; n <= 300; n++ {
			l.Abandon(engine.Turn{N: n})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var sizes []int
		for _, sent := range e.returned {
			sizes = append(sizes, len(sent))
		}
		assert.Equal(t, []int{1, engine.MostRequests, 300 - 1 - engine.MostRequests}, sizes)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := l.Return(ctx, engine.Return{})
		require.ErrorIs(t, err, engine.ErrOutcomeUnknown)
	})
}

// One that may ask later waits for that moment, with everybody behind it. Before it
// stand those who were requeued, in the order of their slots (they came back within
// microseconds, in any order), and those who missed their turns.
func TestWhoLinesUpAgainStandsBeforeWhoComesNew(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		began := time.Now()
		asks(t.Context(), l, line.Request{N: 1})
		under := <-e.asked
		asks(t.Context(), l, line.Request{N: 2})
		under.notYet(10 * time.Second)
		time.Sleep(3 * time.Second)
		asks(t.Context(), l, line.Request{N: 9, WasVoid: true, Slot: 9})
		q := <-e.asked
		assert.Equal(t, 3*time.Second, time.Since(began), "it need not wait")
		for _, slot := range []int{30, 10, 20} {
			asks(t.Context(), l, line.Request{N: slot, WasVoid: true, Slot: int64(slot)})
		}
		asks(t.Context(), l, line.Request{N: 4, First: true})
		q.grants()
		q = <-e.asked
		assert.Equal(t, []int{10, 20, 30, 4}, q.permits())
		assert.True(t, q.requests[0].WasVoid)
		q.grants()
		q = <-e.asked
		assert.Equal(t, []int{1, 2}, q.permits())
		assert.Equal(t, 10*time.Second, time.Since(began))
		q.grants()
	})
}

func TestWhoeverDoesNotAcceptTheMomentIsRefusedAtOnce(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		first := asks(t.Context(), l, line.Request{N: 1, Latest: time.Now().Add(5 * time.Second)})
		(<-e.asked).notYet(10 * time.Second)
		assert.Equal(t, engine.NotYet, (<-first).Verdict, "its own")
		asks(t.Context(), l, line.Request{N: 2})
		(<-e.asked).notYet(10 * time.Second)
		synctest.Wait()
		began := time.Now()
		for _, r := range []line.Request{{N: 3, Now: true}, {N: 4, Latest: began.Add(5 * time.Second)}} {
			got := <-asks(t.Context(), l, r)
			assert.Equal(t, engine.Refused, got.Verdict)
			assert.Equal(t, 10*time.Second, got.Wait)
			assert.Zero(t, time.Since(began))
		}
		(<-e.asked).grants()
	})
}

func TestIfRedisIsAwayAllInLineFail(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		first := asks(t.Context(), l, line.Request{N: 1})
		second := asks(t.Context(), l, line.Request{N: 2})
		(<-e.asked).fails(engine.ErrOutcomeUnknown)
		require.ErrorIs(t, (<-first).err, engine.ErrOutcomeUnknown)
		err := (<-second).err
		require.ErrorIs(t, err, engine.ErrUnreachable)
		require.NotErrorIs(t, err, engine.ErrOutcomeUnknown, "nothing was sent for it")

		asks(t.Context(), l, line.Request{N: 3})
		fourth := asks(t.Context(), l, line.Request{N: 4})
		(<-e.asked).fails(engine.ErrFull)
		(<-e.asked).grants()
		require.NoError(t, (<-fourth).err, "Redis answered")
	})
}

func TestWithRetryTheLineAsksAgainInOrder(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		l.Retry, e.status = true, engine.ErrUnreachable
		first := asks(t.Context(), l, line.Request{N: 1})
		now := asks(t.Context(), l, line.Request{N: 2, Now: true})
		late := asks(t.Context(), l, line.Request{N: 3, Latest: time.Now().Add(time.Second)})
		asks(t.Context(), l, line.Request{N: 4})
		(<-e.asked).fails(engine.ErrUnreachable)
		require.ErrorIs(t, (<-now).err, engine.ErrUnreachable)
		err := (<-late).err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, engine.ErrUnreachable)
		time.Sleep(20 * time.Second)
		e.mu.Lock()
		assert.InDelta(t, 28, e.statuses, 14, "from 50 ms to a second apart")
		e.takes = 10 * time.Second
		e.mu.Unlock()
		time.Sleep(5 * time.Second)
		asks(t.Context(), l, line.Request{N: 5}) // while the status is read
		e.mu.Lock()
		e.status = nil
		e.mu.Unlock()
		q := <-e.asked
		assert.Equal(t, []int{1, 4, 5}, q.permits())
		q.grants()
		require.NoError(t, (<-first).err)
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
		q := <-e.asked
		require.Equal(t, []int{1}, q.permits(), "who has left is not asked for")
		q.grants()
		require.NoError(t, (<-second).err)
		require.Zero(t, time.Since(began))
	})
}

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
				_, err := l.Ask(ctx, line.Request{N: 1})
				if err == nil || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
					return fmt.Errorf("granted by nobody, or nobody's deadline: %w", err)
				}
				return nil
			})
		}
		require.NoError(t, callers.Wait())
	}
}

// The question of a caller that wanted a turn at once lost it, and asked for nobody.
func TestALateStatusOfAnOverdueQuestionHarmsNobody(t *testing.T) {
	test(t, func(t *testing.T, e *fake, l *line.Line) {
		l.Retry, l.Patience, e.takes = true, 2*time.Second, 3*time.Second
		ctx, leave := context.WithCancel(t.Context())
		first := asks(ctx, l, line.Request{N: 1})
		(<-e.asked).fails(engine.ErrUnreachable)
		synctest.Wait()
		leave()
		require.ErrorIs(t, (<-first).err, engine.ErrUnreachable)
		now := asks(t.Context(), l, line.Request{N: 2, Now: true})
		require.ErrorIs(t, (<-now).err, timeout.ErrOverdue)
		late := <-e.asked
		assert.Equal(t, []int{2}, late.permits())
		late.grants()
		synctest.Wait()
		assert.Equal(t, [][]engine.Return{{{Turn: engine.Turn{N: 2}, N: 2}}}, e.returned, "nobody waits for it")
	})
}
