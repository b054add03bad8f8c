package engines

import (
	"cmp"
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
	"github.com/fairlimit/fairlimit/bench/internal/scenario"
	"github.com/fairlimit/fairlimit/internal/clock"
)

//go:embed published.lua
var publishedSource string

var publishedScript = redis.NewScript(publishedSource)

var publishedEngine = Engine{
	Name: "published",
	About: "the script that the idea of fair comes from, with its faults: " +
		"bursts overtake, its clock drifts, errors let through",
	Queues: true,
	Bursts: true,
	ByHand: map[string]string{
		"pause": pausedByHand, "quota": quotaByHand, "reset": "has no Reset: somebody deletes the key",
	},
	Open: func(rdb redis.UniversalClient, name string, l scenario.Load, now func() time.Duration) (Acquirer, error) {
		return &published{rdb: rdb, key: publishedKey(name), now: now, rule: rule{quota: l.Quota}}, nil
	},
	Keys: func(name string) []string { return []string{publishedKey(name)} },
}

func publishedKey(name string) string { return "published:{" + name + "}" }

// published asks and sleeps, and tells nobody when it leaves.
type published struct {
	rdb redis.UniversalClient
	key string
	now func() time.Duration
	rule
}

var (
	_ Resetter = (*published)(nil)
	_ Requoter = (*published)(nil)
)

// Reset is what a person does who knows the key.
func (p *published) Reset(ctx context.Context) error { return p.rdb.Del(ctx, p.key).Err() }

// terms are the quota in the script's, which are whole milliseconds; the rest
// is cut off.
func (p *published) terms() (limit int, interval int64) {
	q := p.holds()
	return cmp.Or(q.Burst, q.Permits), max(1, (q.Per / time.Duration(q.Permits)).Milliseconds())
}

// noTimeout is a wait, in milliseconds, that nobody is told.
const noTimeout = 1 << 40

// Acquire asks for one permit after the other, since the script knows no more.
func (p *published) Acquire(ctx context.Context, _, n int) (turn *measure.Turn, err error) {
	var first time.Duration
	for range n {
		if turn, err = p.one(ctx); err != nil {
			return nil, err
		}
		if turn != nil {
			first = cmp.Or(first, turn.Replied)
			turn.First = first
		}
	}
	return turn, nil
}

func (p *published) one(ctx context.Context) (*measure.Turn, error) {
	timeout := int64(noTimeout)
	if deadline, has := ctx.Deadline(); has {
		timeout = time.Until(deadline).Milliseconds()
	}
	limit, interval := p.terms()
	sent := p.now()
	ms, err := publishedScript.Run(ctx, p.rdb, []string{p.key}, limit, interval, timeout).Int64()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, nil // an error is taken for leave to go
	case ms > 0 && ms >= timeout:
		return nil, ErrRefused
	}
	turn := &measure.Turn{Sent: sent, Replied: p.now(), Wait: time.Duration(ms) * time.Millisecond}
	return turn, clock.Sleep(ctx, turn.Wait)
}
