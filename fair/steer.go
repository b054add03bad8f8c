package fair

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/lua"
)

// steer asks a script about the queue as a whole.
func (q *queue) steer(ctx context.Context, s *lua.Script, args ...any) (engine.News, error) {
	words := func(_ *rules, header []any) []any { return append(header, args...) }
	reply, err := q.ask(ctx, question{script: s, args: words})
	if err != nil {
		return engine.News{}, err
	}
	return reply.news, nil
}

func (q *queue) Look(ctx context.Context) (engine.News, error) { return q.steer(ctx, lookScript) }

func (q *queue) Pause(ctx context.Context, d time.Duration) (engine.News, error) {
	return q.steer(ctx, pauseScript, d.Microseconds())
}

func (q *queue) Resume(ctx context.Context) (engine.News, error) { return q.steer(ctx, resumeScript) }

// What lua/fair/requeue.lua is told: what has gone stays counted, or is forgotten.
const keep, forget = 0, 1

func (q *queue) Requeue(ctx context.Context) (engine.News, error) {
	return q.steer(ctx, requeueScript, keep)
}

// Reset also clears keys that hold something else, or a queue of other units.
func (q *queue) Reset(ctx context.Context) (engine.News, error) {
	news, err := q.steer(ctx, requeueScript, forget)
	if !errors.Is(err, engine.ErrState) && !errors.Is(err, engine.ErrUnsupported) {
		return news, err
	}
	if err := q.client.Del(ctx, append(q.logKeys(q.rules.Load().names), q.key)...).Err(); err != nil {
		return engine.News{}, lua.Explain(ctx, err)
	}
	return q.steer(ctx, requeueScript, forget)
}

func (q *queue) Quotas(ctx context.Context) (quotas []engine.Quota, stored bool, err error) {
	if q.stored || q.opened {
		err = q.readStored(ctx)
	}
	r := q.rules.Load()
	return r.calls, r.text != "", err
}

// readStored goes by the quotas that are stored.
func (q *queue) readStored(ctx context.Context) error {
	text, err := q.client.Get(ctx, q.quotaKey()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return q.explain(lua.Explain(ctx, err))
	}
	if text == q.rules.Load().text {
		return nil
	}
	return q.obey(text)
}

func (q *queue) SetQuotas(ctx context.Context, quotas []engine.Quota) (engine.News, error) {
	text, err := q.textOf(ctx, quotas)
	if err != nil {
		return engine.News{}, err
	}
	return q.store(ctx, text)
}

// LearnQuotas keeps the text under a second key for as long as others are ignored.
func (q *queue) LearnQuotas(ctx context.Context, quotas []engine.Quota, every time.Duration) (engine.News, error) {
	text, err := q.textOf(ctx, quotas)
	if err != nil {
		return engine.News{}, err
	}
	first, err := q.client.SetNX(ctx, q.quotaKey()+":learned", text, every).Result()
	switch {
	case err != nil:
		return engine.News{}, lua.Explain(ctx, err)
	case !first:
		return engine.News{}, nil
	}
	return q.store(ctx, text)
}

// textOf is the text that stores quotas, "" for none. It has those of units as
// well: those that hold for a limiter that goes by stored quotas, and else its own.
func (q *queue) textOf(ctx context.Context, quotas []engine.Quota) (string, error) {
	if q.stored || q.opened {
		_ = q.readStored(ctx) // what cannot be read is replaced
	}
	if len(quotas) == 0 {
		return "", nil
	}
	units := slices.DeleteFunc(slices.Clone(q.rules.Load().units), func(u engine.Unit) bool { return len(u.Quotas) == 0 })
	if _, err := newRules(quotas, units, q.guard); err != nil {
		return "", err
	}
	return quotatext.FormatUnits(quotas, units), nil
}

func (q *queue) store(ctx context.Context, text string) (engine.News, error) {
	return q.steer(ctx, storeScript, keep, text)
}
