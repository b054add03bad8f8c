package fair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/lua"
)

// Look reads the header of the state: a key that holds an empty string is no
// queue to it. If other quotas are stored than it knows, or than the queue goes
// by, it lets the queue obey these. That takes two more questions. If they cannot
// be read, it reports the news all the same.
func (f *fair) Look(ctx context.Context) error {
	known := f.held()
	err := f.under(func(t *quotaSet) error {
		if t != known {
			return f.obey(ctx, t)
		}
		return f.look(ctx, t, f.scripts.look)
	})
	if errors.As(err, new(*unreadableQuotas)) {
		_ = f.look(ctx, f.held().underAnyText(), f.scripts.quotas)
	}
	return err
}

// obey makes the queue one of the quotas, by a request that is refused, and looks.
func (f *fair) obey(ctx context.Context, t *quotaSet) error {
	if len(t.windows) > 0 {
		if _, err := f.takeUnder(ctx, t, []engine.Request{{N: 1, MaxWait: -time.Microsecond}}); err != nil {
			return err
		}
	}
	return f.look(ctx, t, f.scripts.look)
}

func (f *fair) look(ctx context.Context, t *quotaSet, script *lua.Script) error {
	r, err := f.askUnder(ctx, script, t, f.args(t, 1))
	if err != nil {
		return err
	}
	return f.hear(r, t)
}

// hear tells the news of a reply that is nothing else. Without a queue it is
// empty.
func (f *fair) hear(r reply, t *quotaSet) error {
	if r.said == "" {
		f.report(&engine.News{Asked: r.ran, Arrived: r.arrived})
		return nil
	}
	news, err := parseNews(r.said)
	if err != nil {
		return misread(r.said, err)
	}
	f.tell(news, r, t)
	return nil
}

// Pause returns an error that matches [engine.ErrUnsupported] for more than ten
// years. It creates the queue if there is none.
func (f *fair) Pause(ctx context.Context, d time.Duration) error {
	return f.pauses(ctx, f.scripts.pause, d)
}

// PauseFlow returns such an error as well.
func (f *fair) PauseFlow(ctx context.Context, flow string, d time.Duration) error {
	return f.pauses(ctx, f.scripts.pauseFlow, d, f.logKey(flow))
}

func (f *fair) pauses(ctx context.Context, script *lua.Script, d time.Duration, logs ...string) error {
	if d > longestPer {
		return fmt.Errorf("%w: a pause of %v, fair holds up to %v", engine.ErrUnsupported, d, longestPer)
	}
	return f.whatever(func(t *quotaSet) error {
		r, err := f.askUnder(ctx, script, t, append(f.args(t, 2), ceilMicroseconds(max(1, d))), logs...)
		if err != nil {
			return err
		}
		return f.learnTold(r, t)
	})
}

// learnTold is the one place that knows the reply of lua/fair/told.lua.
func (f *fair) learnTold(r reply, t *quotaSet) error {
	texts, _ := r.said.([]any)
	if len(texts) != 2 {
		return misread(r.said, errors.New("want two texts"))
	}
	var o outcome
	if err := o.learn(texts[0], texts[1]); err != nil {
		return misread(r.said, err)
	}
	f.learn(t, &o, r)
	return nil
}
