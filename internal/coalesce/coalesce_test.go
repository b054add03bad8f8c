package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/breaker"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// timed is an engine that grants everything and takes its time.
type timed struct {
	take    time.Duration // a question of callers
	giving  time.Duration // a hundred returns
	answers func([]engine.Request) ([]engine.Answer, error)
	most    int // answers to one question, 0 for all

	mu       sync.Mutex
	log      []int // requests of each question, grants of each return negative
	returned []engine.Grant
}

func (e *timed) Queues() bool   { return true }
func (e *timed) Fits(int) error { return nil }

func (e *timed) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	e.note(len(requests), nil)
	time.Sleep(e.take)
	if e.answers != nil {
		return e.answers(requests)
	}
	if e.most > 0 {
		requests = requests[:min(len(requests), e.most)]
	}
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i] = engine.Answer{Granted: true, Grant: engine.Grant{ID: "grant", N: r.N}}
	}
	return answers, nil
}

func (e *timed) GiveBack(_ context.Context, grants []engine.Grant) error {
	e.note(-len(grants), grants)
	time.Sleep(e.giving * time.Duration(len(grants)) / 100)
	return nil
}

func (e *timed) Status(context.Context) (engine.Status, error) { return engine.Status{}, nil }
func (e *timed) Reset(context.Context) error                   { return nil }

func (e *timed) note(n int, returned []engine.Grant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log = append(e.log, n)
	e.returned = append(e.returned, returned...)
}

func (e *timed) givenBack() []engine.Grant {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returned
}

func (e *timed) sent() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log
}

func (e *timed) asker() *Asker { return &Asker{Engine: e} }

// inBubble runs f on an engine, and wants the Asker to be idle afterwards.
func inBubble(t *testing.T, e *timed, f func(t *testing.T, e *timed, b *Asker)) {
	synctest.Test(t, func(t *testing.T) {
		b := e.asker()
		f(t, e, b)
		idle(t, b)
	})
}

// asking calls Ask for n permits in a goroutine, and waits until it is in line.
func asking(ctx context.Context, b *Asker, n int) <-chan error {
	err := make(chan error, 1)
	go func() {
		e := b.Ask(&Request{Ctx: ctx, N: n, MaxWait: engine.Forever})
		err <- e
	}()
	synctest.Wait()
	return err
}

// idle wants b to hold nothing.
func idle(t *testing.T, b *Asker) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.False(t, b.busy)
	assert.Empty(t, b.common.waiting)
	assert.Nil(t, b.returns)
	assert.Nil(t, b.ready)
}

func TestWhatOneQuestionHoldsIsBounded(t *testing.T) {
	inBubble(t, &timed{take: time.Millisecond}, func(t *testing.T, e *timed, b *Asker) {
		for range 2500 {
			go func() { _ = b.Ask(&Request{Ctx: t.Context(), N: 1}) }()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		for range 500 {
			go func() { _ = b.Return(t.Context(), engine.Grant{N: 1}) }()
		}
		synctest.Wait()
		sum := 0
		for _, n := range e.log {
			sum += n
			assert.LessOrEqual(t, n, mostAsked)
			assert.GreaterOrEqual(t, n, -mostReturned)
		}
		assert.Equal(t, 2500-500, sum)
	})
}

// A question of callers who all differ is answered in part: the engine spares the
// server. Those who are left are not sent over and over.
func TestACrowdIsCarriedAFewTimes(t *testing.T) {
	inBubble(t, &timed{take: 10 * time.Millisecond, most: 64}, func(t *testing.T, e *timed, b *Asker) {
		const crowd = 2000
		for range crowd {
			go func() { assert.NoError(t, b.Ask(&Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever})) }()
		}
		time.Sleep(time.Minute)
		carried := 0
		for _, n := range e.sent() {
			carried += n
		}
		assert.LessOrEqual(t, carried, 3*crowd)
	})
}

// TestACallerThatLeavesDuringItsQuestionHasItsPermitsBack has answers after ten
// milliseconds, and callers that leave after five.
func TestACallerThatLeavesDuringItsQuestionHasItsPermitsBack(t *testing.T) {
	const answer, each = 10 * time.Millisecond, 500 * time.Millisecond / 100
	inBubble(t, &timed{take: answer, giving: 100 * each}, func(t *testing.T, e *timed, b *Asker) {
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			start := time.Now()
			err := b.Ask(&Request{Ctx: ctx, N: 3, MaxWait: engine.Forever})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Len(t, e.givenBack(), i+1)
			require.Equal(t, 15*time.Millisecond, time.Since(start), "it does not stay for longer than it has to")
		}
		assert.Equal(t, engine.Grant{ID: "grant", N: 3, Unused: true}, e.givenBack()[0])
	})
}

func TestACallerThatLeavesStaysForABoundedTime(t *testing.T) {
	for what, e := range map[string]*timed{
		"a slow answer":                   {take: time.Second},
		"a slow return":                   {take: 10 * time.Millisecond, giving: 100 * time.Second},
		"an answer at the very last":      {take: 5*time.Millisecond + ReturnBound},
		"an answer and a return together": {take: 20 * time.Millisecond, giving: 2 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := e.asker()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				start := time.Now()
				err := b.Ask(&Request{Ctx: ctx, N: 1, MaxWait: engine.Forever})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, 5*time.Millisecond+ReturnBound, time.Since(start))
				time.Sleep(2 * time.Second)
				assert.Len(t, e.givenBack(), 1, "it goes back all the same")
				idle(t, b)
			})
		})
	}
}

// TestACallerThatLeavesIsToldWhatItsQuestionFailedBy has an answer soon after
// the caller's ctx has ended. A caller that was lined up again was lined up with
// a ctx that never ends.
func TestACallerThatLeavesIsToldWhatItsQuestionFailedBy(t *testing.T) {
	for _, c := range []struct {
		what    string
		answers []engine.Answer
		err     error
		wants   error
		says    string
	}{
		{"its answer is lost", nil, engine.ErrOutcomeUnknown, engine.ErrOutcomeUnknown, "its question failed"},
		{"there is no connection", nil, engine.ErrUnreachable, engine.ErrUnreachable, "its question failed"},
		{"the queue is full", []engine.Answer{{Err: engine.ErrFull}}, nil, engine.ErrFull, "its question failed"},
		{"it is refused", []engine.Answer{{Wait: time.Hour}}, nil, errGate, "granted nothing"},
		{"it is granted a turn", []engine.Answer{{Granted: true}}, nil, errGate, "what it granted is given back"},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again %t", c.what, again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := &timed{take: 10 * time.Millisecond}
					e.answers = func([]engine.Request) ([]engine.Answer, error) { return c.answers, c.err }
					b := e.asker()
					ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Millisecond, errGate)
					defer cancel()
					r := &Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever}
					if again {
						b.LineUpAgain([]*Request{r})
					}
					r.Ctx = ctx
					err := b.Ask(r)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, errGate, "the cause")
					require.ErrorIs(t, err, c.wants)
					assert.ErrorContains(t, err, c.says)
					assert.NotContains(t, err.Error(), "%!")
					idle(t, b)
					granted := len(c.answers) > 0 && c.answers[0].Granted
					assert.Equal(t, granted, len(e.givenBack()) == 1)
				})
			})
		}
	}
}

// TestALeavingCallerIsNotAskedForAgain has an engine that leaves it for the
// next question.
func TestALeavingCallerIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &timed{take: 10 * time.Millisecond, most: 1}
		b := e.asker()
		first := asking(t.Context(), b, 1)
		ctx, cancel := context.WithCancel(t.Context())
		second, leaving := asking(t.Context(), b, 2), asking(ctx, b, 3)
		require.NoError(t, <-first)
		synctest.Wait() // the next question goes
		cancel()
		start := time.Now()
		require.ErrorIs(t, <-leaving, context.Canceled)
		assert.Equal(t, 10*time.Millisecond, time.Since(start), "when it is left")
		require.NoError(t, <-second)
		idle(t, b)
		assert.Equal(t, []int{1, 2}, e.log)
		assert.Empty(t, e.givenBack())
	})
}

// TestThoseWhoLineUpAgainStandInFrontOfThoseWhoAreLeft has an engine that
// answers one caller of each question. Those who line up again called before a,
// in the order of their names.
func TestThoseWhoLineUpAgainStandInFrontOfThoseWhoAreLeft(t *testing.T) {
	for what, f := range map[string]*Line{"without a flow": nil, "in a flow": NewLine("f", 1, 0)} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := (&timed{take: 10 * time.Millisecond, most: 1}).asker()
				b.calls = 1000
				wants := []string{"a", "b", "5", "7", "8", "9", "c", "d", "e"}
				went := make(chan string, len(wants))
				call := func(names ...string) {
					for _, name := range names {
						go func() {
							assert.NoError(t, b.Ask(&Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever, Line: f}))
							went <- name
						}()
						synctest.Wait()
					}
				}
				again := func(names ...string) {
					var all []*Request
					for _, name := range names {
						all = append(all, &Request{
							Ctx: t.Context(), N: 1, MaxWait: engine.Forever, Line: f, Call: uint64(name[0]),
						})
					}
					b.LineUpAgain(all)
					for i, r := range all {
						go func() {
							assert.NoError(t, b.Ask(r))
							went <- names[i]
						}()
					}
				}
				call("a", "b", "c", "d")
				time.Sleep(12 * time.Millisecond) // the question for b, c and d is under way
				again("5", "9")
				time.Sleep(10 * time.Millisecond) // and that for 5, 9, c and d
				again("7", "8")
				call("e")
				for _, name := range wants {
					assert.Equal(t, name, <-went)
				}
				idle(t, b)
			})
		})
	}
}

// TestReturnsDoNotStarveCallers has 20,000 returns in line, which take a
// second.
func TestReturnsDoNotStarveCallers(t *testing.T) {
	inBubble(t, &timed{take: time.Millisecond, giving: 5 * time.Millisecond}, func(t *testing.T, e *timed, b *Asker) {
		for range 20_000 {
			go b.Abandon(t.Context(), engine.Grant{N: 1})
		}
		synctest.Wait()
		start := time.Now()
		for range 10 {
			asked := time.Now()
			require.NoError(t, <-asking(t.Context(), b, 1))
			const most = 10*time.Millisecond + 10*time.Millisecond + time.Millisecond // two returns and its question
			assert.LessOrEqual(t, time.Since(asked), most)
		}
		assert.Less(t, len(e.givenBack()), 20_000)
		for len(e.givenBack()) < 20_000 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		assert.Less(t, time.Since(start), 2100*time.Millisecond, "nor are they slower for it")
	})
}

func TestCallersDoNotStarveReturns(t *testing.T) {
	inBubble(t, &timed{take: 5 * time.Millisecond}, func(t *testing.T, e *timed, b *Asker) {
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 * mostAsked { // there is always a full question in line
			go func() {
				for ctx.Err() == nil {
					_ = b.Ask(&Request{Ctx: t.Context(), N: 1})
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		for range 5 {
			start := time.Now()
			require.NoError(t, b.Return(t.Context(), engine.Grant{N: 1}))
			assert.LessOrEqual(t, time.Since(start), 2*5*time.Millisecond,
				"the question under way, and one more at most")
		}
		cancel()
		time.Sleep(time.Second)
	})
}

var errGate = errors.New("opened")

// closedOff returns a breaker, and what opens it.
func closedOff() (b *breaker.Breaker, open func()) {
	b = breaker.New(func(context.Context) error { return nil })
	return b, func() { b.Begin(true)(errGate) }
}

func TestAnOpenBreakerCallsEverybodyAway(t *testing.T) {
	inBubble(t, &timed{take: time.Second}, func(t *testing.T, e *timed, b *Asker) {
		var open func()
		b.Breaker, open = closedOff()
		asked, lined := asking(context.Background(), b, 1), asking(t.Context(), b, 2)
		start := time.Now()
		open()
		require.ErrorIs(t, <-asked, errGate)
		require.ErrorIs(t, <-lined, errGate)
		assert.Zero(t, time.Since(start))
		time.Sleep(2 * time.Second)
		assert.Len(t, e.givenBack(), 1)
		assert.Equal(t, []int{1, -1}, e.log)
	})
}

func TestOthersGoOnWhenAQuestionIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &timed{take: time.Minute}
		b := &Asker{Engine: e}
		start, alone := time.Now(), asking(context.Background(), b, 1)
		e.take = time.Second
		next := asking(t.Context(), b, 2)
		time.Sleep(timeout.Answer + time.Millisecond)
		last := asking(t.Context(), b, 3)
		require.NoError(t, <-next)
		require.NoError(t, <-last)
		time.Sleep(time.Minute - 500*time.Millisecond - time.Since(start))
		more := asking(t.Context(), b, 4)
		require.ErrorIs(t, <-alone, timeout.ErrOverdue)
		time.Sleep(time.Millisecond)
		require.Equal(t, []int{1, 1, 1, 1}, e.sent(), "one question at a time: what is late goes back after the fourth")
		require.NoError(t, <-more)
		time.Sleep(time.Second)
		assert.Len(t, e.givenBack(), 1)
		idle(t, b)
	})
}

func TestAReturnWithoutAnAnswerIsOverdue(t *testing.T) {
	inBubble(t, &timed{giving: time.Hour}, func(t *testing.T, e *timed, b *Asker) {
		start := time.Now()
		require.ErrorIs(t, b.Return(context.Background(), engine.Grant{N: 1}), timeout.ErrOverdue)
		assert.Equal(t, timeout.Answer, time.Since(start))
		require.NoError(t, <-asking(t.Context(), b, 1), "others go on")
		time.Sleep(time.Hour)
	})
}
