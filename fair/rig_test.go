package fair

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

var ctx = context.Background()

const (
	ms     = time.Millisecond
	second = time.Second

	queueKey = "fairlimit:{q}"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// rig is a server whose time stands still unless a test lets it pass. Keys expire
// by it.
type rig struct {
	testing.TB
	mini *redistest.MiniServer
	now  time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t, redistest.Mini(t), time.UnixMicro(1_700_000_000_000_000)}
	r.mini.SetTime(r.now)
	return r
}

// pass lets time pass; below 0 it sets the server's clock back.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.mini.SetTime(r.now)
}

// cells are those in the log of calls.
func (r *rig) cells() int64 { return r.mini.Client.ZCard(ctx, queueKey+":calls").Val() }

func (r *rig) lose() { r.mini.FlushAll() }

// limiter is another limiter of the same name, with a memory of its own and no
// guard.
func (r *rig) limiter(quota engine.Quota, extra ...engine.Quota) *limiter {
	return r.build(engine.Config{Quota: quota, Extra: extra})
}

// counts is a limiter that counts tokens besides.
func (r *rig) counts(quota, tokens engine.Quota) *limiter {
	units := []engine.Unit{{Name: "tokens", Quotas: []engine.Quota{tokens}}}
	return r.build(engine.Config{Quota: quota, Units: units})
}

func (r *rig) build(cfg engine.Config) *limiter {
	cfg.Client, cfg.Name, cfg.Guard = r.mini.Client, "q", new(time.Duration)
	e, err := New(cfg)
	require.NoError(r, err)
	return &limiter{r, e.(engine.Queue)}
}

// pair is two limiters that share one permit a second.
func pair(t testing.TB) (r *rig, a, b *limiter) {
	r = newRig(t)
	return r, r.limiter(each(1, second)), r.limiter(each(1, second))
}

// each is permits of one at most every so often.
func each(permits int, per time.Duration) engine.Quota {
	return engine.Quota{Permits: permits, Per: per}
}

// limiter fails the test for every error that is not expected.
type limiter struct {
	testing.TB
	engine.Queue
}

func (l *limiter) flow(id string, weight int) *limiter {
	return &limiter{l.TB, l.Queue.Flow(id, weight)}
}

func (l *limiter) ask(requests ...engine.Request) ([]engine.Answer, engine.News) {
	answers, news, err := l.Take(ctx, requests)
	require.NoError(l, err)
	for _, a := range answers {
		require.NoError(l, a.Err)
	}
	return answers, news
}

// takes are the waits of n permits, one after the other.
func (l *limiter) takes(n int) (waits []time.Duration) {
	for range n {
		waits = append(waits, l.take(1).Wait)
	}
	return waits
}

// take asks for n permits at any time.
func (l *limiter) take(n int) engine.Answer {
	answers, _ := l.ask(engine.Request{N: n, MaxWait: engine.Forever})
	require.Equal(l, engine.Granted, answers[0].Verdict)
	return answers[0]
}

// crowd asks for as many permits as one question can, one by one.
func (l *limiter) crowd() []engine.Answer {
	answers, _ := l.ask(slices.Repeat([]engine.Request{{N: 1, MaxWait: engine.Forever}}, engine.MostRequests)...)
	return answers
}

// verdict is what becomes of a request for one permit now.
func (l *limiter) verdict() engine.Verdict {
	answers, _ := l.ask(engine.Request{N: 1})
	return answers[0].Verdict
}

// again asks for one whose turn was made void.
func (l *limiter) again() engine.Answer {
	answers, _ := l.ask(engine.Request{N: 1, MaxWait: engine.Forever, WasVoid: true})
	require.Equal(l, engine.Granted, answers[0].Verdict)
	return answers[0]
}

// back gives a turn back.
func (l *limiter) back(answers ...engine.Answer) {
	var returns []engine.Return
	for _, a := range answers {
		returns = append(returns, engine.Return{Turn: a.Turn, N: a.Turn.N, Amounts: a.Turn.Amounts})
	}
	require.NoError(l, l.GiveBack(ctx, returns))
}

// owes settles a turn for so much more than it had.
func (l *limiter) owes(a engine.Answer, more int) {
	require.NoError(l, l.GiveBack(ctx, []engine.Return{{Turn: a.Turn, N: -more}}))
}

func (l *limiter) pause(d time.Duration) engine.News { return l.news(l.Pause(ctx, d)) }
func (l *limiter) resume() engine.News               { return l.news(l.Resume(ctx)) }
func (l *limiter) requeue() engine.News              { return l.news(l.Requeue(ctx)) }
func (l *limiter) reset() engine.News                { return l.news(l.Reset(ctx)) }
func (l *limiter) look() engine.News                 { return l.news(l.Look(ctx)) }

func (l *limiter) news(news engine.News, err error) engine.News {
	require.NoError(l, err)
	return news
}

func (l *limiter) status() engine.Status {
	s, err := l.Status(ctx)
	require.NoError(l, err)
	return s
}

// comes is how long after the news a turn comes.
func comes(n engine.News, t engine.Turn) time.Duration { return micros(t.Slot + n.Offset - n.Now) }
