package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/coalesce"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// queue is an engine in memory: one permit an interval, on a clock that can
// stand still. Its answers take a while.
type queue struct {
	interval, takes time.Duration

	mu         sync.Mutex
	start      time.Time
	ahead      time.Duration // the server's clock
	stood      time.Duration
	rest       time.Time // the clock stands still until
	generation int
	reset      bool
	stretches  []engine.Stretch
	last       time.Duration
	silent     bool // to looks
	refuses    bool // them at once
	takeCount  int
	looks      int
	returned   []engine.Grant
	stays      time.Duration // how much longer the next answer is on its way back
	dawdles    time.Duration // and the next question on its way there

	heard func(*engine.News)
}

func newQueue(interval time.Duration) *queue {
	return &queue{interval: interval, start: time.Now(), last: -interval}
}

// line is a line in front of the queue, as one limiter has.
func (q *queue) line(within, lateness time.Duration) *Sleepers {
	l := &Sleepers{Within: within, MaxLateness: lateness, Asker: &coalesce.Asker{Engine: q}, Look: q.look}
	q.heard, l.Asker.Answered = l.Hear, l.Answered
	return l
}

// inBubble runs f with a queue, and a line in front of it.
func inBubble(t *testing.T, interval, lateness time.Duration, f func(t *testing.T, q *queue, l *Sleepers)) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(interval)
		f(t, q, q.line(second, lateness))
	})
}

// clock, under mu, is the queue's.
func (q *queue) clock() (now, rest time.Duration) {
	rest = max(0, time.Until(q.rest))
	return time.Since(q.start) - q.stood + rest, rest
}

// server, under mu, is the server's clock.
func (q *queue) server() int64 { return time.Now().Add(q.ahead).UnixMicro() }

func (q *queue) news(asked time.Time) *engine.News {
	now, rest := q.clock()
	return &engine.News{
		Asked: asked, Queue: fmt.Sprint(q.generation), Reset: q.reset, Server: q.server(),
		Clock: now.Microseconds(), Stands: rest, Slow: q.stretches,
	}
}

// answer brings the news of a question, after what it takes on the way.
func (q *queue) answer(asked time.Time, n *engine.News) {
	q.travel()
	q.mu.Lock()
	stays := q.stays
	q.stays = 0
	q.mu.Unlock()
	time.Sleep(stays)
	n.Arrived = time.Now()
	q.heard(n)
}

// travel is half of the way.
func (q *queue) travel() {
	q.mu.Lock()
	half := q.takes / 2
	q.mu.Unlock()
	time.Sleep(half)
}

func (q *queue) travelThere() {
	q.travel()
	q.mu.Lock()
	dawdles := q.dawdles
	q.dawdles = 0
	q.mu.Unlock()
	time.Sleep(dawdles)
}

func (q *queue) nowTakes(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes = d
}

// slowThere lets the next question be on its way for so much longer.
func (q *queue) slowThere(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dawdles = d
}

// slow lets the next answer stay on its way back for so much longer.
func (q *queue) slow(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stays = d
}

func (q *queue) Queues() bool   { return true }
func (q *queue) Fits(int) error { return nil }

func (q *queue) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	asked := time.Now()
	q.travelThere()
	q.mu.Lock()
	q.takeCount++
	now, rest := q.clock()
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		slot := max(now, q.last+q.interval*time.Duration(r.N))
		answers[i] = engine.Answer{Wait: slot - now + rest, Paused: rest}
		if slot-now+rest > r.MaxWait {
			continue
		}
		q.last = slot
		answers[i].Granted, answers[i].Comes = true, q.server()+answers[i].Wait.Microseconds()
		answers[i].Grant = engine.Grant{ID: fmt.Sprint(q.generation), At: slot.Microseconds(), N: r.N}
	}
	news := q.news(asked)
	q.mu.Unlock()
	q.answer(asked, news)
	return answers, nil
}

func (q *queue) look(ctx context.Context) error {
	asked := time.Now()
	q.travelThere()
	q.mu.Lock()
	q.looks++
	silent, refuses, news := q.silent, q.refuses, q.news(asked)
	q.mu.Unlock()
	if refuses {
		return errors.New("refused")
	}
	if silent {
		<-ctx.Done()
		return errors.New("no answer")
	}
	q.answer(asked, news)
	return nil
}

func (q *queue) GiveBack(_ context.Context, grants []engine.Grant) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.returned = append(q.returned, grants...)
	return nil
}

func (q *queue) Status(context.Context) (engine.Status, error) { return engine.Status{}, nil }

func (q *queue) Reset(context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.generation++
	q.reset, q.last, q.rest = true, -q.interval, time.Time{}
	now, _ := q.clock()
	q.last += now
	return nil
}

// leaps lets the server's clock leap ahead, and the queue's with it.
func (q *queue) leaps(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start, q.ahead = q.start.Add(-d), q.ahead+d
}

// pause lets the clock stand still, as another process would.
func (q *queue) pause(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rest := max(0, time.Until(q.rest)); d > rest {
		q.stood += d - rest
		q.rest = time.Now().Add(d)
	}
}

// nowSilent lets Redis answer no looks, or answer again.
func (q *queue) nowSilent(silent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.silent = silent
}

// nowRefuses lets Redis refuse looks, or answer again.
func (q *queue) nowRefuses(refuses bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refuses = refuses
}

// nowSlow is where the clock is said to be slow.
func (q *queue) nowSlow(slow []engine.Stretch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stretches = slow
}

// loses begins a queue of others, whose clock is ahead by so much.
func (q *queue) loses(ahead time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.generation++
	q.start, q.last = q.start.Add(-ahead), q.last+ahead
}

// givenBack is what has been given back once nothing is under way.
func (q *queue) givenBack() []engine.Grant {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.returned
}

// went is who returned from its sleep when, and with what.
type went struct {
	who int
	at  time.Duration
	err error
}

// wait is the wait loop of a limiter.
func wait(ctx context.Context, l *Sleepers, r *coalesce.Request) error {
	r.Ctx = ctx
	s := NewSleeper(r)
	for {
		err := l.Asker.Ask(r)
		switch {
		case err != nil:
			return err
		case !r.Reply.Granted:
			return &Refusal{Wait: r.Reply.Wait, Paused: r.Reply.Paused > 0}
		case r.Reply.Wait <= 0 && l.MayGo(r):
			return nil
		}
		if again, err := l.Sleep(s); !again {
			return err
		}
	}
}

// asksNow asks for a turn of its own that nobody sleeps for, and brings the news.
func asksNow(t *testing.T, l *Sleepers, maxWait time.Duration) *coalesce.Request {
	t.Helper()
	r := &coalesce.Request{Ctx: t.Context(), N: 1, MaxWait: maxWait}
	require.NoError(t, l.Asker.Ask(r))
	return r
}

// callers lets so many call one after the other, and returns them as they go.
func callers(ctx context.Context, l *Sleepers, count int, request func(who int) *coalesce.Request) <-chan went {
	out, start := make(chan went, count), time.Now()
	for who := range count {
		go func() {
			err := wait(ctx, l, request(who))
			out <- went{who, time.Since(start), err}
		}()
		synctest.Wait()
	}
	return out
}

func forever(int) *coalesce.Request { return &coalesce.Request{N: 1, MaxWait: engine.Forever} }

// inOrder wants all to go, one after the other, and returns when.
func inOrder(t *testing.T, out <-chan went, count int) (at []time.Duration) {
	t.Helper()
	for who := range count {
		w := <-out
		require.NoError(t, w.err)
		require.Equal(t, who, w.who)
		at = append(at, w.at)
	}
	return at
}
