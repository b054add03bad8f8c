package fair

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/quotatext"
	"github.com/fairlimit/fairlimit/lua"
)

// ceiling is the quota of one flow: see lua/fair/ceiling.lua. Another one may be
// stored in its place.
type ceiling struct {
	words string // of the windows that were given
	held  atomic.Pointer[[]window]
}

// CeilingOf lengthens the quota by the guard, as it does those of the queue. It
// keeps a window that the Burst implies: turns of another ceiling count for it.
func (f *fair) CeilingOf(q engine.Quota) (engine.Ceiling, error) {
	windows, err := allWindowsOf([]engine.Quota{q}, f.guard)
	if err != nil {
		return nil, err
	}
	c := &ceiling{words: wordsOf(windows)}
	c.held.Store(&windows)
	return c, nil
}

// wordsOf writes windows as '<most>/<length>,...'.
func wordsOf(windows []window) string {
	words := make([]string, len(windows))
	for i, w := range windows {
		words[i] = fmt.Sprintf("%d/%d", w.Permits, w.Length)
	}
	return strings.Join(words, ",")
}

// parseWindows reads what wordsOf wrote.
func parseWindows(words string) (windows []window, err error) {
	for word := range strings.SplitSeq(words, ",") {
		n, err := parseNumbers(strings.ReplaceAll(word, "/", " "), 2)
		if err != nil {
			return nil, fmt.Errorf("no ceiling: %q", words)
		}
		windows = append(windows, window{int(n[0]), n[1]})
	}
	return windows, nil
}

func (c *ceiling) Fits(n int) error {
	if most := most(*c.held.Load()); n > most {
		return fmt.Errorf("%w of its flow: %d asked for, at most %d fit", engine.ErrExceedsQuota, n, most)
	}
	return nil
}

// AtBest is how long the ceiling lets so many permits take at least.
func (c *ceiling) AtBest(permits int) time.Duration { return atBest(*c.held.Load(), permits) }

// logKey is where the log of a flow is.
func (f *fair) logKey(flow string) string { return f.key + ":flow:" + flow }

// logsOf are the keys of the logs that the grants are counted in, and for each
// grant which one is its own, from 1 for the last one on; 0 for none.
func (f *fair) logsOf(grants []engine.Grant) (logs []string, of []int) {
	for _, g := range grants {
		at := 0
		if key := f.logKey(g.Flow); g.Ceiling {
			if !slices.Contains(logs, key) {
				logs = slices.Insert(logs, 0, key)
			}
			at = len(logs) - slices.Index(logs, key)
		}
		of = append(of, at)
	}
	return logs, of
}

// SetCeiling stores the quota of a flow beside its log, and without one forgets
// what is stored.
func (f *fair) SetCeiling(ctx context.Context, flow string, q *engine.Quota) error {
	key := f.logKey(flow)
	pipe := f.client.TxPipeline()
	pipe.ZRemRangeByScore(ctx, key, fmt.Sprint(storedCeiling), fmt.Sprint(storedCeiling))
	if q == nil {
		pipe.Expire(ctx, key, forgotten)
	} else {
		windows, err := allWindowsOf([]engine.Quota{*q}, f.guard)
		if err != nil {
			return err
		}
		note := fmt.Sprintf("quota %s %s", wordsOf(windows), quotatext.FormatAll([]engine.Quota{*q}))
		pipe.ZAdd(ctx, key, redis.Z{Score: storedCeiling, Member: note})
		pipe.Persist(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return lua.Explain(ctx, err)
	}
	return nil
}

const (
	storedCeiling = -3 // the score of a quota that is stored, see lua/fair/ceiling.lua

	// forgotten is how long a log stays whose stored quota was forgotten: a pause
	// of the flow may last for as long.
	forgotten = 366 * 24 * time.Hour
)
