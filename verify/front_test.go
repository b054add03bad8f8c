package verify

import (
	"cmp"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit/engine"
)

// limiter is what stands before an engine, in virtual time: a line, and callers
// that sleep.
type limiter struct {
	*world
	queue  engine.Queue
	isFlow bool

	news  engine.News // the newest
	heard int64       // when the news came

	line     []*caller // in order
	mayAsk   int64     // nobody in the line may ask before
	again    []*caller // their turns were made void
	sleepers []*caller
}

// caller is one that asks for n[u] of each unit u.
type caller struct {
	engine.Request
	n     []int
	turn  engine.Turn
	comes int64
	of    *limiter

	// Of those whose turn was made void:
	requeue, before int64 // the queue that made it void, the slot that it had
	asksAt          int64
}

// event is what a limiter does next.
type event struct {
	at int64
	do func()
}

// next is what happens next, if anything does. Turns come before looks.
func (l *limiter) next() (first event) {
	add := func(at int64, do func()) {
		if first.do == nil || at < first.at {
			first = event{at, do}
		}
	}
	for _, c := range l.sleepers {
		add(c.comes, func() { l.wake(c) })
	}
	for _, c := range l.again {
		add(c.asksAt, func() { l.askAgain(c) })
	}
	if len(l.line) > 0 {
		add(l.mayAsk, l.ask)
	}
	if len(l.sleepers) > 0 {
		add(l.heard+within/2, l.look)
	}
	return first
}

// call asks for a new caller.
func (l *limiter) call(c *caller) {
	l.line = append(l.line, c)
	if l.mayAsk <= l.now {
		l.ask()
	}
}

// ask asks for all who stand in the line.
func (l *limiter) ask() {
	asking := l.line
	l.line = nil
	for i, c := range l.take(asking) {
		if c == engine.NotYet {
			l.line = append(l.line, asking[i])
		}
	}
}

func (l *limiter) askAgain(c *caller) {
	l.again = slices.DeleteFunc(l.again, func(x *caller) bool { return x == c })
	switch {
	case l.take([]*caller{c})[0] != engine.NotYet:
	case l.isFlow: // its flow has no room
		c.asksAt = l.mayAsk
		l.again = append(l.again, c)
	default:
		l.t.Fatalf("whoever was made void asks before others, in less than %d µs", within)
	}
}

func (l *limiter) take(callers []*caller) []engine.Verdict {
	var requests []engine.Request
	for _, c := range callers {
		requests = append(requests, c.Request)
	}
	answers, news, err := l.queue.Take(ctx, requests)
	require.NoError(l.t, err)
	var verdicts []engine.Verdict
	for i, a := range answers {
		require.NoError(l.t, a.Err)
		verdicts = append(verdicts, a.Verdict)
		switch a.Verdict {
		case engine.NotYet:
			l.mayAsk = l.now + max(1, a.Wait.Microseconds())
		case engine.Granted:
			callers[i].turn, callers[i].comes = a.Turn, l.now+a.Wait.Microseconds()
			l.note("%v at slot %d, comes at %d", callers[i].n, a.Turn.Slot-beginning, callers[i].comes-beginning)
			callers[i].of = l
			l.granted(callers[i], &news)
			l.sleepers = append(l.sleepers, callers[i])
		}
	}
	l.hear(news)
	return verdicts
}

func (l *limiter) look() {
	news, err := l.queue.Look(ctx)
	require.NoError(l.t, err)
	l.heard = l.now
	l.hear(news)
}

// hear takes in news: turns are void, or come at other times.
func (l *limiter) hear(news engine.News) {
	if news.Queue == 0 {
		return
	}
	if news.Offset != l.news.Offset || news.Queue != l.news.Queue {
		l.note("hears of queue %d, void after %d, offset %d", news.Queue-beginning, news.Void-beginning, news.Offset)
	}
	l.news, l.heard = news, l.now
	var stand []*caller
	for _, c := range l.sleepers {
		switch {
		case news.Stands(c.turn):
			stand = append(stand, c)
		default:
			l.isVoid(c)
		}
		if c.turn.Queue == news.Queue || news.Void > 0 { // a requeue leaves the clock as it is
			c.comes = l.now - news.Now + news.Offset + c.turn.Slot
		}
	}
	l.sleepers = stand
}

// isVoid lets a caller ask again, later the further ahead it was.
func (l *limiter) isVoid(c *caller) {
	ahead := float64(c.turn.Slot-l.news.Void) / float64(second)
	c.requeue, c.before, c.WasVoid = l.news.Queue, c.turn.Slot, true
	c.asksAt = l.now - l.news.Now + l.news.Queue + within/2
	c.asksAt = max(l.now, c.asksAt+int64(float64(within)/2*ahead/(ahead+10)))
	l.again = append(l.again, c)
	slices.SortStableFunc(l.again, func(a, b *caller) int { return cmp.Compare(a.before, b.before) })
}

// wake lets a caller go, or ask again if it is too late.
func (l *limiter) wake(c *caller) {
	l.drop(c)
	if l.now-c.comes <= l.limit.guard.Microseconds()/2 {
		l.note("%v of slot %d goes", c.n, c.turn.Slot-beginning)
		l.went = append(l.went, gone{l.now, c})
		return
	}
	l.giveBack(c)
	c.WasVoid = false
	l.line = slices.Insert(l.line, 0, c)
	l.mayAsk = max(l.mayAsk, l.now)
}

func (l *limiter) drop(c *caller) {
	l.sleepers = slices.DeleteFunc(l.sleepers, func(x *caller) bool { return x == c })
}

func (l *limiter) giveBack(c *caller) {
	whole := engine.Return{Turn: c.turn, N: c.turn.N, Amounts: c.turn.Amounts}
	require.NoError(l.t, l.queue.GiveBack(ctx, []engine.Return{whole}))
}

// leave lets one of the callers that sleep go away.
func (l *limiter) leave(t *rapid.T) {
	if len(l.sleepers) == 0 {
		t.Skip("nobody sleeps")
	}
	c := l.sleepers[rapid.IntRange(0, len(l.sleepers)-1).Draw(t, "who")]
	l.drop(c)
	l.giveBack(c)
}
