package turns_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/turns"
)

// queue is a queue as looks see it. Its clock shows the bubble's time less the
// offset.
type queue struct {
	*turns.Sleepers
	mu    sync.Mutex
	news  engine.News // without times
	err   error
	looks int
	began time.Time
}

func newQueue() *queue {
	q := &queue{began: time.Now(), news: engine.News{Queue: 1}}
	q.Sleepers = &turns.Sleepers{Look: q.look, Patience: 5 * time.Second}
	return q
}

// tells are the news of now, as an answer has them that took so long to come.
func (q *queue) tells(back time.Duration) engine.News {
	n := q.news
	n.Sent, n.Arrived = time.Now(), time.Now().Add(back)
	n.Now = time.Since(q.began).Microseconds()
	return n
}

func (q *queue) look(context.Context) (engine.News, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks++
	return q.tells(0), q.err
}

// becomes changes what looks see from now on.
func (q *queue) becomes(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// turn is one of the queue that comes a while after its beginning.
func turn(slot time.Duration) engine.Turn {
	return engine.Turn{Queue: 1, Slot: slot.Microseconds(), N: 1}
}

type woke struct {
	at  time.Duration
	err error
}

// sleeps is a caller that was told of a turn now.
func (q *queue) sleeps(ctx context.Context, t engine.Turn, latest time.Time) <-chan woke {
	told, done := q.tells(0), make(chan woke, 1)
	q.Hear(&told)
	go func() {
		_, err := q.Sleep(ctx, t, &told, latest)
		done <- woke{time.Since(q.began), err}
	}()
	synctest.Wait()
	return done
}

func test(t *testing.T, f func(t *testing.T, q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newQueue())
		time.Sleep(time.Minute) // what is under way ends
	})
}

func TestASleeperWakesWhenItsTurnComesOrItsCtxEnds(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		first, second := q.sleeps(t.Context(), turn(10*time.Second), time.Time{}), q.sleeps(t.Context(), turn(0), time.Time{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		leaves := q.sleeps(ctx, turn(time.Minute), time.Time{})
		assert.Equal(t, woke{0, nil}, <-second)
		assert.Equal(t, woke{time.Second, context.DeadlineExceeded}, <-leaves)
		assert.Equal(t, woke{10 * time.Second, nil}, <-first)
		synctest.Wait()
		looks := q.looks
		assert.InDelta(t, 19, looks, 1, "twice a second")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, looks, q.looks, "nobody looks if nobody sleeps")
	})
}

// Up to the pause Redis is away.
func TestSleepersHearOfAPauseAndAResumeWithinASecond(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		stays := q.sleeps(t.Context(), turn(10*time.Second), time.Time{})
		late := q.sleeps(t.Context(), turn(11*time.Second), time.Now().Add(30*time.Second))
		q.becomes(func() { q.err = errors.New("away") })
		time.Sleep(3 * time.Second)
		q.becomes(func() { q.err, q.news.Offset, q.news.Paused = nil, time.Minute.Microseconds(), time.Minute })
		refused := <-late
		require.Equal(t, turns.ErrTooLate, refused.err)
		assert.LessOrEqual(t, refused.at, 4*time.Second)
		assert.Equal(t, time.Minute, q.Paused())
		time.Sleep(30 * time.Second)
		q.becomes(func() { q.news.Offset, q.news.Paused = 25*time.Second.Microseconds(), 0 })
		assert.InDelta(t, 35*time.Second, (<-stays).at, float64(time.Second))
	})
}

// At 3 s the turns after 4 s become void.
func TestSleepersWhoseTurnsBecomeVoidAskAgainInTheirOrder(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		stands := q.sleeps(t.Context(), turn(4*time.Second), time.Time{})
		var void []<-chan woke
		for _, slot := range []time.Duration{5, 6, 60, 3600} {
			void = append(void, q.sleeps(t.Context(), turn(slot*time.Second), time.Time{}))
		}
		time.Sleep(3 * time.Second)
		q.becomes(func() {
			q.news.Queue, q.news.Void = 3*time.Second.Microseconds(), 4*time.Second.Microseconds()
		})
		assert.Equal(t, woke{4 * time.Second, nil}, <-stands)
		before := 3500 * time.Millisecond
		for _, done := range void {
			got := <-done
			assert.Equal(t, turns.ErrVoid, got.err)
			assert.Greater(t, got.at, before)
			assert.LessOrEqual(t, got.at, 4*time.Second)
			before = got.at
		}
	})
}

// Its caller was told before the pause, and the requeue is newer than both: it
// went when it was told.
func TestATurnThatStandsAfterARequeueKnowsOfThePauseBefore(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		sleeps := q.sleeps(t.Context(), turn(5*time.Second), time.Time{})
		q.becomes(func() {
			q.news.Offset = 10 * time.Second.Microseconds()
			q.news.Queue, q.news.Void = 2*time.Second.Microseconds(), 6*time.Second.Microseconds()
		})
		assert.Equal(t, woke{15 * time.Second, nil}, <-sleeps)
	})
}

func TestTurnsOfAQueueThatIsGoneComeWhenTold(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		sleeps := q.sleeps(t.Context(), turn(10*time.Second), time.Time{})
		q.becomes(func() { q.news.Queue, q.news.Offset = 2, time.Hour.Microseconds() })
		assert.Equal(t, woke{10 * time.Second, nil}, <-sleeps)
	})
}

// The earliest that answers told holds, and may rise by a thousandth of the
// time since: clocks drift.
func TestSlowAnswersDoNotPutATurnOff(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		told := turn(time.Second)
		for i, back := range []time.Duration{30, 10, 90, 50} {
			n := q.tells(back * time.Millisecond)
			time.Sleep(back * time.Millisecond)
			q.Hear(&n)
			due, stands := q.Due(told, &n)
			require.True(t, stands)
			want := []time.Duration{1030, 1010, 1010, 1010}[i] * time.Millisecond
			assert.InDelta(t, want, due.Sub(q.began), 150_000)
		}
		time.Sleep(time.Minute)
		n := q.tells(90 * time.Millisecond)
		q.Hear(&n)
		due, _ := q.Due(told, &n)
		assert.InDelta(t, 1070*time.Millisecond, due.Sub(q.began), 1e6, "60 ms after a minute")
		n = q.tells(90 * time.Millisecond)
		n.Now -= 5 * time.Second.Microseconds()
		q.Hear(&n)
		due, _ = q.Due(told, &n)
		assert.InDelta(t, 6*time.Second, due.Sub(q.began), 1e6, "the server's clock was set back")
	})
}

func TestOldNewsAreNoNews(t *testing.T) {
	test(t, func(t *testing.T, q *queue) {
		old := q.tells(0)
		old.Offset = time.Hour.Microseconds()
		time.Sleep(time.Second)
		n := q.tells(0)
		q.Hear(&n)
		q.Hear(&old)
		q.Hear(&engine.News{Sent: time.Now()})
		due, _ := q.Due(turn(3*time.Second), &n)
		assert.Equal(t, 3*time.Second, due.Sub(q.began))
		assert.True(t, q.Confirmed())
	})
}
