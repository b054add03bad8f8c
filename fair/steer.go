package fair

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// Look reads the first and the last line of the state: a key that holds an
// empty string is no queue to it. If it finds that other quotas are stored it
// makes the queue one of theirs, which takes two more questions.
func (f *fair) Look(ctx context.Context) error {
	return f.under(func(t *terms) error { return f.lookUnder(ctx, t) })
}

// lookUnder looks, or makes the queue one of terms that have just been learned.
func (f *fair) lookUnder(ctx context.Context, t *terms) error {
	if t.learned.Load() {
		_, err := f.statusUnder(ctx, t)
		return err
	}
	return f.look(ctx, t)
}

func (f *fair) look(ctx context.Context, t *terms) error {
	r, err := f.askUnder(ctx, f.scripts.look, t, f.args(t, 1))
	if err != nil {
		return err
	}
	return f.hear(r)
}

// hear tells the news of a reply that is nothing else. Where there is no queue,
// they can only be that it has ended.
func (f *fair) hear(r reply) error {
	if r.said == "" {
		f.tellNone(r)
		return nil
	}
	news, err := parseNews(r.said)
	if err != nil {
		return misread(r.said, err)
	}
	f.tell(news, r)
	return nil
}

// Pause returns an error that matches [engine.ErrUnsupported] for more than ten
// years. It creates the queue if there is none.
func (f *fair) Pause(ctx context.Context, d time.Duration) error {
	if d > longestPer {
		return fmt.Errorf("%w: a pause of %v, fair holds up to %v", engine.ErrUnsupported, d, longestPer)
	}
	r, err := f.ask(ctx, f.scripts.pause, append(f.args(f.held(), 1), ceilMicroseconds(max(1, d))))
	if err != nil {
		return err
	}
	o, err := decodeTold(r.said)
	f.learn(&o, r)
	return err
}
