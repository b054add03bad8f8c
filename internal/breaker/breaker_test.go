package breaker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var errBoom = errors.New("boom")

// redis is what a breaker reads from.
type redis struct {
	reads atomic.Int32
	err   atomic.Pointer[error]
	hang  chan struct{} // a read ends when it is closed
}

func (r *redis) fails(err error) { r.err.Store(&err) }

func (r *redis) read(context.Context) error {
	r.reads.Add(1)
	if r.hang != nil {
		<-r.hang
	}
	return *r.err.Load()
}

// bubble runs f with a fake clock, on a breaker whose reads fail.
func bubble(t *testing.T, f func(t *testing.T, b *Breaker, r *redis)) {
	synctest.Test(t, func(t *testing.T) {
		r := &redis{}
		r.fails(errBoom)
		f(t, New(r.read), r)
	})
}

func (b *Breaker) is() state {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

func isOpened(b *Breaker) bool {
	select {
	case <-b.Opened():
		return true
	default:
		return false
	}
}

// asks is a caller that comes and whose question goes next.
func asks(t *testing.T, b *Breaker) {
	t.Helper()
	require.NoError(t, b.Admit())
	require.NoError(t, b.Try())
}

func turnedAway(t *testing.T, b *Breaker) {
	t.Helper()
	require.ErrorIs(t, b.Try(), engine.ErrUnreachable)
	require.ErrorIs(t, b.Admit(), engine.ErrUnreachable) // and it may start a probe
}

// opens makes a question fail.
func opens(b *Breaker) { b.Begin(true)(errBoom) }

// halfOpens lets a probe succeed.
func halfOpens(t *testing.T, b *Breaker, r *redis) {
	t.Helper()
	opens(b)
	r.fails(nil)
	time.Sleep(Interval)
	turnedAway(t, b)
	require.Equal(t, halfOpen, b.is())
}

func TestAFailureOpens(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, _ *redis) {
		asks(t, b)
		require.NoError(t, b.Check())
		require.False(t, isOpened(b))
		waiting := b.Opened()

		opens(b)
		require.Equal(t, open, b.is())
		<-waiting // those who wait leave
		require.ErrorIs(t, b.Cause(), errBoom)
		turnedAway(t, b)
		require.ErrorIs(t, b.Check(), engine.ErrUnreachable)
		require.ErrorContains(t, b.Check(), "boom")
	})
}

func TestSilenceIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, _ *redis) {
		end := b.Begin(true)
		start := time.Now()
		<-b.Opened()
		assert.Equal(t, Silence, time.Since(start))
		require.ErrorIs(t, b.Cause(), engine.ErrOutcomeUnknown)

		end(nil)
		assert.Equal(t, closed, b.is(), "it answers after all")
		assert.False(t, isOpened(b))
	})
}

func TestAnAnswerInTimeIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, _ *redis) {
		end := b.Begin(true)
		time.Sleep(Silence - 1)
		end(nil)
		time.Sleep(time.Hour)
		assert.Equal(t, closed, b.is())
	})
}

func TestAnAnswerToAReturnDoesNotClose(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, _ *redis) {
		opens(b)
		b.Begin(false)(nil)
		assert.Equal(t, open, b.is())
		b.Begin(true)(nil)
		assert.Equal(t, closed, b.is())
	})
}

func TestAnOldQuestionsFailureIsNoNews(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, _ *redis) {
		old := b.Begin(true)
		b.Begin(true)(nil)
		old(errBoom)
		assert.Equal(t, closed, b.is())
	})
}

func TestOneProbeAtATimeAndNoneUncalledFor(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, r *redis) {
		r.hang = make(chan struct{})
		opens(b)
		time.Sleep(time.Hour)
		assert.Zero(t, r.reads.Load(), "nobody calls")
		for range 100 {
			turnedAway(t, b)
			time.Sleep(Interval)
		}
		assert.EqualValues(t, 1, r.reads.Load())

		b.Begin(true)(nil) // closed meanwhile, and open again
		opens(b)
		time.Sleep(Interval)
		turnedAway(t, b)
		synctest.Wait()
		assert.EqualValues(t, 1, r.reads.Load(), "the first still hangs")

		close(r.hang)
		require.Equal(t, open, b.is())
		turnedAway(t, b)
		synctest.Wait()
		assert.EqualValues(t, 1, r.reads.Load(), "not before the interval is over")
		time.Sleep(Interval)
		turnedAway(t, b)
		synctest.Wait()
		assert.EqualValues(t, 2, r.reads.Load())
	})
}

func TestOneTriesAfterAProbe(t *testing.T) {
	begins := map[string]func(t *testing.T, b *Breaker){
		"a caller that comes":         asks,
		"a question of those in line": func(t *testing.T, b *Breaker) { require.NoError(t, b.Check()) },
	}
	ends := map[string]struct {
		with func(b *Breaker)
		want state
	}{
		"its question is answered": {func(b *Breaker) { b.Begin(true)(nil) }, closed},
		"its question fails":       {func(b *Breaker) { b.Begin(true)(errBoom) }, open},
		"its question is silent":   {func(b *Breaker) { b.Begin(true); time.Sleep(Silence) }, open},
		"its question never goes":  {func(*Breaker) { time.Sleep(Silence) }, open},
	}
	for who, begin := range begins {
		for what, end := range ends {
			t.Run(who+", "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, b *Breaker, r *redis) {
					halfOpens(t, b, r)
					waiting := b.Opened()
					begin(t, b)
					require.Equal(t, trying, b.is())
					require.NoError(t, b.Check(), "the trial may go")
					require.False(t, isOpened(b), "it waits for its answer")
					turnedAway(t, b)

					end.with(b)
					require.Equal(t, end.want, b.is())
					require.Equal(t, end.want != closed, isOpened(b))
					select {
					case <-waiting:
						require.Equal(t, open, end.want, "whoever stood in line before stays")
					default:
						require.Equal(t, closed, end.want, "whoever stood in line before leaves")
					}
					time.Sleep(time.Minute)
					require.Equal(t, end.want, b.is(), "an old trial changes nothing")
				})
			})
		}
	}
}

func TestWhoeverOnlyStandsInLineIsNoTrial(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, r *redis) {
		halfOpens(t, b, r)
		waiting := b.Opened()
		for range 100 {
			require.NoError(t, b.Admit())
			time.Sleep(Silence)
		}
		require.Equal(t, halfOpen, b.is())
		require.False(t, isOpened(b))
		assert.EqualValues(t, 1, r.reads.Load())

		b.Begin(false)(errBoom)
		require.Equal(t, open, b.is())
		<-waiting // those in line leave
		require.ErrorIs(t, b.Cause(), errBoom)
	})
}

func TestAFailureOfHalfOpenOpens(t *testing.T) {
	bubble(t, func(t *testing.T, b *Breaker, r *redis) {
		opens(b)
		r.fails(nil)
		time.Sleep(Interval / 2) // or it would be silent for too long just as the probe is due
		late := b.Begin(true)
		time.Sleep(Interval / 2)
		turnedAway(t, b)
		require.Equal(t, halfOpen, b.is())
		late(errBoom)
		require.Equal(t, open, b.is())
	})
}
