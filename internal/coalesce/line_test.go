package coalesce

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/breaker"
)

// sharing is an engine that grants one permit to each flow, at once.
type sharing struct {
	engine.Engine
	asked [][]engine.Request
}

func (s *sharing) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	s.asked = append(s.asked, requests)
	held := map[*engine.Flow]int{}
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i].Share = 1
		if answers[i].Left = r.Flow.Ahead+held[r.Flow] >= 1; !answers[i].Left {
			answers[i].Granted = true
			held[r.Flow]++
		}
	}
	return answers, nil
}

func TestAFlowIsAskedForWhenItHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &sharing{}
		b := &Asker{Engine: e}
		f, other := NewLine("f", 1, 0), NewLine("g", 3, 0)
		went := make(chan *Line, 10)
		call := func(f *Line) {
			go func() {
				err := b.Ask(&Request{Ctx: context.Background(), N: 1, MaxWait: engine.Forever, Line: f})
				assert.NoError(t, err)
				went <- f
			}()
			synctest.Wait()
		}
		for range 3 {
			call(f)
		}
		require.Len(t, went, 1)
		questions := len(e.asked)
		time.Sleep(time.Hour)
		require.Len(t, e.asked, questions, "nobody asks while nothing passes")
		call(other)
		require.Len(t, went, 2, "another flow has a line of its own")
		assert.Equal(t, engine.Flow{ID: "g", Weight: 3, Wanted: 1}, *e.asked[len(e.asked)-1][0].Flow)
		b.SetFlow(f, 7, nil)
		b.Passed(f, 1)
		synctest.Wait()
		require.Len(t, went, 3)
		assert.Equal(t, 7, e.asked[len(e.asked)-1][0].Flow.Weight)
		b.Passed(f, 1)
		synctest.Wait()
		require.Len(t, went, 4)
		assert.Zero(t, f.lined)
		assert.False(t, f.fits(0, 1))
		b.Passed(f, 1)
		assert.True(t, f.fits(0, 1))
	})
}

func TestFlowsThatLineUpDuringAQuestionGoInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &sharing{}
		b := &Asker{Engine: &slowly{sharing: e, takes: 100 * time.Millisecond}}
		for i := range 151 {
			askingIn(b, NewLine(strconv.Itoa(i), 1, 0), 1, engine.Forever)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, e.asked, 2)
		assert.Len(t, e.asked[1], 150)
	})
}

func TestTheLineOfAFlowForgetsThoseWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Asker{Engine: &sharing{}}
		f := NewLine("f", 1, 0)
		ask := func(ctx context.Context) error {
			return b.Ask(&Request{Ctx: ctx, N: 1, MaxWait: engine.Forever, Line: f})
		}
		require.NoError(t, ask(context.Background()))
		stays := askingIn(b, f, 1, engine.Forever) // at the front of the line
		for range 100 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			for range 10 {
				go func() { assert.ErrorIs(t, ask(ctx), context.DeadlineExceeded) }()
			}
			time.Sleep(2 * time.Second)
			cancel()
		}
		b.mu.Lock()
		assert.LessOrEqual(t, len(f.waiting), 2)
		assert.Equal(t, 1, f.lined)
		assert.Equal(t, 1, f.ahead)
		b.mu.Unlock()
		b.Passed(f, 1)
		require.NoError(t, <-stays)
	})
}

func TestAFlowCountsNothingOfThoseWhoLeaveDuringTheQuestion(t *testing.T) {
	for name, leaves := range map[string]time.Duration{
		"shortly before the answer":  95 * time.Millisecond,
		"so early that nobody waits": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &Asker{Engine: &slowly{sharing: &sharing{}, takes: 100 * time.Millisecond}}
				f := NewLine("f", 1, 0)
				ctx, cancel := context.WithTimeout(context.Background(), leaves)
				defer cancel()
				err := b.Ask(&Request{Ctx: ctx, N: 1, MaxWait: engine.Forever, Line: f})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				b.mu.Lock()
				assert.Zero(t, f.ahead)
				assert.Zero(t, f.lined)
				b.mu.Unlock()
			})
		})
	}
}

// slowly is a sharing that takes its time, and takes back.
type slowly struct {
	*sharing
	takes time.Duration
}

func (s *slowly) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	time.Sleep(s.takes)
	return s.sharing.Take(ctx, requests)
}

func (s *slowly) GiveBack(context.Context, []engine.Grant) error { return nil }

func TestWhoeverAcceptsNoWaitStandsInNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &sharing{}
		b := &Asker{Engine: &slowly{sharing: e, takes: 100 * time.Millisecond}}
		f := NewLine("f", 1, 0)
		ask := func(maxWait time.Duration) <-chan Reply {
			replies := make(chan Reply, 1)
			go func() {
				r := &Request{Ctx: t.Context(), N: 1, MaxWait: maxWait, Line: f}
				if b.Ask(r) == nil {
					replies <- r.Reply
				}
			}()
			synctest.Wait()
			return replies
		}
		require.True(t, (<-ask(engine.Forever)).Granted) // its share is one permit, which it holds
		start := time.Now()
		require.Len(t, e.asked, 1)
		require.False(t, (<-ask(0)).Granted)
		assert.Zero(t, time.Since(start))
		require.Len(t, e.asked, 1, "nothing was asked")

		b.Passed(f, 1)
		first, second, hasty, third := ask(engine.Forever), ask(engine.Forever), ask(0), ask(engine.Forever)
		require.True(t, (<-first).Granted)
		require.False(t, (<-hasty).Granted)
		assert.Equal(t, 100*time.Millisecond, time.Since(start), "there was no room left after that question")
		assert.Equal(t, 2, f.lined)
		b.Passed(f, 1)
		require.True(t, (<-second).Granted)
		b.Passed(f, 1)
		require.True(t, (<-third).Granted)
		assert.Zero(t, f.lined)
	})
}

// deciding is an engine whose answers take 100 ms and are what a test decides.
type deciding struct {
	engine.Engine
	decide func([]engine.Request) []engine.Answer
}

func (d *deciding) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	time.Sleep(100 * time.Millisecond)
	return d.decide(requests), nil
}

// TestOnlyCallersOfAFlowAreAskedForAsSuch has each kind ask for a number of
// permits of its own. Callers of none use what those of a flow have left.
func TestOnlyCallersOfAFlowAreAskedForAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &deciding{decide: func(requests []engine.Request) []engine.Answer {
			answers := make([]engine.Answer, len(requests))
			for i, r := range requests {
				assert.Equal(t, r.N == 1, r.Flow != nil, "%d permits", r.N)
				assert.Equal(t, requests[0].N, r.N, "all of one kind")
				answers[i] = engine.Answer{Granted: true, Share: 100}
			}
			return answers
		}}
		b := &Asker{Engine: e}
		var all sync.WaitGroup
		ask := func(n int, line *Line) {
			all.Go(func() {
				assert.NoError(t, b.Ask(&Request{Ctx: context.Background(), N: n, MaxWait: engine.Forever, Line: line}))
				b.Passed(line, n)
			})
			synctest.Wait()
		}
		f := NewLine("f", 1, 0)
		for range 3 {
			ask(2, nil)
			ask(1, f)
			time.Sleep(100 * time.Millisecond)
			ask(2, nil) // what follows keeps the server busy
			time.Sleep(100 * time.Millisecond)
			ask(2, nil)
		}
		all.Wait()
	})
}

func TestWhoeverIsRefusedHoldsNothingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := func(a engine.Answer) engine.Engine {
			return &deciding{decide: func([]engine.Request) []engine.Answer { return []engine.Answer{a} }}
		}
		fails := func([]engine.Request) ([]engine.Answer, error) { return nil, errGate }
		for _, e := range []engine.Engine{
			answers(engine.Answer{Wait: time.Hour, Share: 1}), answers(engine.Answer{Err: engine.ErrFull, Share: 1}),
			&timed{answers: fails},
		} {
			b, f := &Asker{Engine: e}, NewLine("f", 1, 0)
			<-askingIn(b, f, 1, time.Second)
			synctest.Wait()
			assert.True(t, f.fits(0, 1))
			b.mu.Lock()
			assert.Zero(t, f.ahead)
			b.mu.Unlock()
		}
	})
}

func TestAQuestionTellsWhatItsFlowHoldsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []engine.Flow
		b := &Asker{Engine: &deciding{decide: func(requests []engine.Request) []engine.Answer {
			told = append(told, *requests[0].Flow)
			return []engine.Answer{{Granted: true, Share: 10}}
		}}}
		f := NewLine("f", 1, 4)
		for n := 2; n <= 4; n++ {
			require.NoError(t, <-askingIn(b, f, n, engine.Forever))
		}
		flow := engine.Flow{ID: "f", Weight: 1, LookAhead: 4}
		for i, ahead := range []int{0, 2, 5} {
			flow.Ahead, flow.Wanted = ahead, ahead+i+2
			assert.Equal(t, flow, told[i])
		}
	})
}

// TestWhoeverAcceptsNoWaitIsNotPutBackInLine has its question leave it for the
// next, for which there is no room: the share has become smaller. Another that
// does not fit either has come meanwhile.
func TestWhoeverAcceptsNoWaitIsNotPutBackInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var share atomic.Int64
		share.Store(10)
		e := &deciding{decide: func(requests []engine.Request) []engine.Answer {
			answers := make([]engine.Answer, min(4, len(requests)))
			for i := range answers {
				answers[i] = engine.Answer{Granted: requests[i].MaxWait > 0, Wait: time.Hour, Share: int(share.Load())}
			}
			return answers
		}}
		b := &Asker{Engine: e}
		f := NewLine("f", 1, 0)
		ask := func(n int, maxWait time.Duration) <-chan error {
			done := make(chan error, 1)
			go func() {
				err := b.Ask(&Request{Ctx: t.Context(), N: n, MaxWait: maxWait, Line: f})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		<-ask(1, engine.Forever) // tells the share
		for range 5 {
			ask(1, engine.Forever) // one is asked for, four follow
		}
		hasty := ask(1, 0)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait() // the four are asked for, and the hasty one
		ask(9, engine.Forever)
		share.Store(5)
		start := time.Now()
		require.NoError(t, <-hasty)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		b.Passed(f, 6)
		time.Sleep(time.Second)
		b.Passed(f, 9)
	})
}

// TestWhoeverAcceptsNoWaitHoldsNobodyUp has one that does not fit stand in
// front of two that do.
func TestWhoeverAcceptsNoWaitHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, share := sharingOut(8)
		f := NewLine("f", 1, 0)
		require.NoError(t, <-askingIn(b, f, 1, engine.Forever))
		askingIn(b, f, 1, engine.Forever)
		share.Store(4) // of which two are held
		large, one, small := askingIn(b, f, 3, 0), askingIn(b, f, 1, engine.Forever), askingIn(b, f, 1, 0)
		time.Sleep(time.Second)
		require.Len(t, large, 1)
		require.Len(t, one, 1)
		require.Len(t, small, 1)
		b.mu.Lock()
		assert.Equal(t, 4, f.ahead, "all but the large one were granted")
		b.mu.Unlock()
	})
}

func TestWhoeverLinesUpAgainHoldsItsTurnNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := sharingOut(10)
		f := NewLine("f", 1, 0)
		r := &Request{Ctx: t.Context(), N: 1, Cost: 3, MaxWait: engine.Forever, Line: f}
		for range 2 {
			require.NoError(t, b.Ask(r))
			synctest.Wait()
			assert.Equal(t, 3, f.ahead, "what it costs, once")
			b.LineUpAgain([]*Request{r})
		}
		require.NoError(t, b.Ask(r))
	})
}

// Redis answers reads again after it had failed, and one question is to try. A
// caller that stands in the line of a full flow asks nothing, so it does not try.
// It is called away once Redis fails again.
func TestCallersOfAFullFlowStandInLineUntilRedisFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := sharingOut(1)
		f := NewLine("f", 1, 0)
		require.NoError(t, <-askingIn(b, f, 1, engine.Forever)) // its share is one permit, which it holds
		var open func()
		b.Breaker, open = closedOff()
		open()
		time.Sleep(breaker.Interval)
		require.Error(t, b.Breaker.Admit(), "it starts a probe")
		synctest.Wait()
		stands := askingIn(b, f, 1, engine.Forever)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, stands, "it is not called away")
		require.NoError(t, b.Breaker.Admit(), "nobody tries yet")
		require.NoError(t, <-askingIn(b, nil, 1, engine.Forever))
		require.Error(t, b.Breaker.Admit(), "that was the one")
		b.Passed(f, 1)
		require.NoError(t, <-stands)

		stands = askingIn(b, f, 1, engine.Forever)
		open()
		require.ErrorIs(t, <-stands, errGate)
	})
}

// sharingOut returns an Asker whose engine grants everything, after 100 ms,
// and tells the share that a test sets.
func sharingOut(share int64) (*Asker, *atomic.Int64) {
	var told atomic.Int64
	told.Store(share)
	return &Asker{Engine: &deciding{decide: func(requests []engine.Request) []engine.Answer {
		answers := make([]engine.Answer, len(requests))
		for i := range answers {
			answers[i] = engine.Answer{Granted: true, Share: int(told.Load())}
		}
		return answers
	}}}, &told
}

// askingIn is asking for a caller of a flow.
func askingIn(b *Asker, f *Line, n int, maxWait time.Duration) <-chan error {
	err := make(chan error, 1)
	go func() {
		e := b.Ask(&Request{Ctx: context.Background(), N: n, MaxWait: maxWait, Line: f})
		err <- e
	}()
	synctest.Wait()
	return err
}

// Whoever accepts no wait is told that the ceiling has no room. The next caller
// asks all the same, even before the server goes on.
func TestWhoeverAcceptsNoWaitHoldsNoFlowBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewLine("f", 1, 0)
		q := &question{asker: &Asker{}, callers: []*Request{{line: f}}}
		q.learn([]engine.Answer{{Left: true, Wait: time.Hour}})
		assert.True(t, f.fits(0, 1))
		q.callers[0].MaxWait = time.Second
		q.learn([]engine.Answer{{Left: true, Wait: time.Hour}})
		assert.False(t, f.fits(0, 1))
	})
}
