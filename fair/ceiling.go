package fair

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// ceiling is the quota of one flow: see lua/fair/ceiling.lua.
type ceiling struct {
	windows []window
	words   string // the windows, as '<most>/<length>,...'
}

// CeilingOf lengthens the quota by the guard, as it does those of the queue.
func (f *fair) CeilingOf(q engine.Quota) (engine.Ceiling, error) {
	windows, err := windowsOf([]engine.Quota{q}, f.guard)
	if err != nil {
		return nil, err
	}
	words := make([]string, len(windows))
	for i, w := range windows {
		words[i] = fmt.Sprintf("%d/%d", w.Permits, w.Length)
	}
	return &ceiling{windows, strings.Join(words, ",")}, nil
}

func (c *ceiling) Fits(n int) error {
	if most := most(c.windows); n > most {
		return fmt.Errorf("%w of its flow: %d asked for, at most %d fit", engine.ErrExceedsQuota, n, most)
	}
	return nil
}

// AtBest is how long the ceiling lets so many permits take at least.
func (c *ceiling) AtBest(permits int) time.Duration { return atBest(c.windows, permits) }

// longest is for how long a permit counts.
func (c *ceiling) longest() time.Duration { return microseconds(c.windows[0].Length) }

func (c *ceiling) text() string {
	if c == nil {
		return ""
	}
	return c.words
}

// logKey is where the log of a flow is.
func (f *fair) logKey(flow string) string { return f.key + ":flow:" + flow }

// logsOf are the keys of the logs that the grants are counted in, and for each
// grant the number of its own, from 1 on; 0 for none.
func (f *fair) logsOf(grants []engine.Grant) (logs []string, of []int) {
	for _, g := range grants {
		if g.Flow == "" {
			of = append(of, 0)
			continue
		}
		key := f.logKey(g.Flow)
		if !slices.Contains(logs, key) {
			logs = append(logs, key)
		}
		of = append(of, slices.Index(logs, key)+1)
	}
	return logs, of
}
