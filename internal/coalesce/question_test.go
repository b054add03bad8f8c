package coalesce

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// looking is an engine that looks at the ctx of a question.
type looking struct {
	timed
	look func(context.Context)
}

func (e *looking) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := e.timed.Take(ctx, requests)
	e.look(ctx)
	return answers, err
}

func TestTheCtxOfAQuestionIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		e := &looking{timed: timed{take: time.Second}, look: func(ctx context.Context) {
			assert.NoError(t, ctx.Err(), "its caller has left")
			assert.Equal(t, "value", ctx.Value(key{}))
			deadline, bounded := ctx.Deadline()
			assert.True(t, bounded)
			assert.Equal(t, timeout.Answer, deadline.Sub(start))
		}}
		b := &Asker{Engine: e}
		require.ErrorIs(t, <-asking(ctx, b, 1), context.DeadlineExceeded)
		time.Sleep(time.Second)
		assert.Len(t, e.givenBack(), 1)
		idle(t, b)
	})
}

// TestAnOverdueQuestionIsNobodysDeadline has an engine that heeds the ctx of a
// question.
func TestAnOverdueQuestionIsNobodysDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &timed{}
		b := &Asker{Engine: &heeding{e}}
		for range 20 { // whether the end of ctx or the answer is heard first is chance
			err := <-asking(t.Context(), b, 1)
			require.ErrorIs(t, err, engine.ErrOutcomeUnknown)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		idle(t, b)
	})
}

type heeding struct{ *timed }

func (*heeding) Take(ctx context.Context, _ []engine.Request) ([]engine.Answer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAQuestionThatFailsDoesSoForAllOfItsCallers(t *testing.T) {
	boom := errors.New("boom")
	for what, c := range map[string]struct {
		answers []engine.Answer
		err     error
		wants   error
	}{
		"an error": {nil, boom, boom},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &timed{take: time.Second}
				e.answers = func(requests []engine.Request) ([]engine.Answer, error) {
					if len(requests) == 1 {
						return []engine.Answer{{Granted: true}}, nil
					}
					return c.answers, c.err
				}
				b := e.asker()
				first := asking(t.Context(), b, 1)
				all := []<-chan error{asking(t.Context(), b, 2), asking(t.Context(), b, 3), asking(t.Context(), b, 4)}
				require.NoError(t, <-first)
				for _, err := range all {
					require.ErrorIs(t, <-err, c.wants)
				}
				assert.Equal(t, []int{1, 3}, e.log, "those who come during a question go together in the next")
				require.NoError(t, <-asking(t.Context(), b, 5), "others go on")
			})
		})
	}
}

// TestAnAnswerThatComesTooLateReachesNobodyElse has callers that are told by
// then that their question is overdue, and others that use their places.
func TestAnAnswerThatComesTooLateReachesNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &timed{take: time.Second}
		e.answers = func(requests []engine.Request) ([]engine.Answer, error) {
			answers := make([]engine.Answer, len(requests))
			for i, r := range requests {
				answers[i] = engine.Answer{Granted: r.N != 3, Grant: engine.Grant{N: r.N}}
			}
			if requests[0].N == 2 {
				time.Sleep(2 * timeout.Answer)
			}
			return answers, nil
		}
		b := e.asker()
		first := asking(t.Context(), b, 1)
		late := []<-chan error{asking(t.Context(), b, 2), asking(t.Context(), b, 3)}
		require.NoError(t, <-first)
		for _, err := range late {
			require.ErrorIs(t, <-err, timeout.ErrOverdue)
		}
		next := []<-chan error{asking(t.Context(), b, 4), asking(t.Context(), b, 5)}
		for _, err := range next {
			require.NoError(t, <-err)
		}
		time.Sleep(2 * timeout.Answer)
		assert.Equal(t, []engine.Grant{{N: 2, Unused: true}}, e.givenBack())
		idle(t, b)
	})
}

// counting is an engine that grants what leaves 0 when divided by 3, refuses
// what leaves 1, fails for what leaves 2, answers as few as it likes, and
// counts.
type counting struct {
	timed
	permits atomic.Int64 // granted and not given back
}

func (e *counting) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 1+rand.IntN(len(requests)))
	for i := range answers {
		switch n := requests[i].N; n % 3 {
		case 0:
			answers[i] = engine.Answer{Granted: true, Grant: engine.Grant{N: n}}
			e.permits.Add(int64(n))
		case 1:
			answers[i] = engine.Answer{Wait: time.Duration(n)}
		case 2:
			answers[i] = engine.Answer{Err: engine.ErrExceedsQuota}
		}
	}
	runtime.Gosched()
	return answers, nil
}

func (e *counting) GiveBack(_ context.Context, grants []engine.Grant) error {
	for _, g := range grants {
		e.permits.Add(-int64(g.N))
	}
	return nil
}

func TestEveryCallerGetsItsOwnAnswer(t *testing.T) {
	e := &counting{}
	b := &Asker{Engine: e}
	var went atomic.Int64
	ask := func(ctx context.Context, n int) {
		r := &Request{Ctx: ctx, N: n, MaxWait: engine.Forever}
		err := b.Ask(r)
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
		case n%3 == 2:
			assert.ErrorIs(t, err, engine.ErrExceedsQuota)
		case !assert.NoError(t, err):
		case n%3 == 1:
			assert.Equal(t, time.Duration(n), r.Reply.Wait)
		default:
			assert.Equal(t, n, r.Reply.Grant.N)
			went.Add(int64(n))
		}
	}
	var all sync.WaitGroup
	for caller := range 64 {
		all.Go(func() {
			for i := range 200 {
				if n := 1 + caller*1000 + i; caller%2 == 0 {
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
					leaves := time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel)
					ask(ctx, n)
					leaves.Stop()
					cancel()
				} else {
					ask(context.Background(), n)
				}
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return e.permits.Load() == went.Load() }, 10*time.Second, time.Millisecond,
		"what nobody went with is back")
}

func TestAnswersThatWaitedForReplicasInVainDoNotTellWhatTheWayTakes(t *testing.T) {
	for answer, tells := range map[*engine.Answer]bool{
		{Granted: true}:                true,
		{Wait: time.Hour}:              true,
		{Err: engine.ErrNotReplicated}: false,
	} {
		inBubble(t, &timed{take: time.Second}, func(t *testing.T, e *timed, b *Asker) {
			e.answers = func([]engine.Request) ([]engine.Answer, error) { return []engine.Answer{*answer}, nil }
			var told []time.Duration
			b.Answered = func(took time.Duration, granted bool) {
				assert.Equal(t, answer.Granted, granted)
				told = append(told, took)
			}
			assert.ErrorIs(t, <-asking(t.Context(), b, 1), answer.Err)
			synctest.Wait()
			assert.Equal(t, tells, len(told) == 1, "%+v", answer)
		})
	}
}
