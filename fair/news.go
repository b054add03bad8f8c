package fair

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// news are those of a queue. In the server's time they have until when it is
// remembered that the queue was reset, 0 if it was not, and when they were
// told. The watermark is of the state that they are of. Stretches are where the
// clock is slow, as lua/fair/recover.lua takes them.
type news struct {
	engine.News
	watermark watermark
	sent      time.Time // when the question was put together
	carried   string    // its watermark
	wentAlong bool      // all that was known went along with the question

	resetEnd  int64
	ends      int64  // when the queue ends, on its clock; 0: as its quotas tell
	obeys     bool   // the queue goes by the quotas of the question
	stretches string // as lua/fair/narrow.lua has them
}

// noStretches are those of a clock that is nowhere slow.
const noStretches = "-"

// parseNews reads what lua/fair/clock.lua says of a queue.
func parseNews(reply any) (n news, err error) {
	text, isText := reply.(string)
	if !isText {
		return n, fmt.Errorf("a %T instead of news", reply)
	}
	if len(text) < wholeWatermark {
		return n, fmt.Errorf("no news: %q", text)
	}
	w, _, _, err := parseTold(text[:wholeWatermark])
	if err != nil {
		return n, err
	}
	plain, stretches := text[wholeWatermark:], ""
	if at := strings.LastIndexByte(plain, ' '); at >= 0 {
		plain, stretches = plain[:at], plain[at+1:]
	}
	numbers, err := parseNumbers(plain, 8)
	if err != nil {
		return n, err
	}
	slow, err := parseStretches(stretches)
	return news{
		watermark: w, resetEnd: numbers[2], ends: numbers[6], obeys: numbers[7] > 0,
		stretches: stretches,
		News: engine.News{
			Server: numbers[5], Queue: w.generation(), Clock: numbers[0],
			Stands: microseconds(max(0, numbers[1])), Late: max(0, -numbers[1]),
			Reset: numbers[2] > 0, Lost: numbers[3] > 0, Differs: numbers[4] > 0, Slow: slow,
		},
	}, err
}

// parseStretches reads '<upto>:<pace>:<windows>|...', or '-' if there are none.
func parseStretches(text string) (all []engine.Stretch, err error) {
	if text == "-" {
		return nil, nil
	}
	for _, word := range strings.Split(text, "|") {
		upto, rest, _ := strings.Cut(word, ":")
		pace, _, _ := strings.Cut(rest, ":")
		numbers, err := parseNumbers(upto+" "+pace, 2)
		if err != nil {
			return nil, err
		}
		all = append(all, engine.Stretch{Until: numbers[0], Pace: numbers[1]})
	}
	return all, nil
}

// news are those of a queue whose clock runs, by an offset to the server's.
func (w watermark) news(offset int64) news {
	return news{
		watermark: w, obeys: true, stretches: noStretches,
		News: engine.News{Server: w.clock - offset, Queue: w.generation(), Clock: w.clock},
	}
}

// obeyed are the quotas of the question, or nil if the queue does not go by them.
func (n *news) obeyed(under *quotaSet) *quotaSet {
	if n.obeys {
		return under
	}
	return nil
}

func parseNumbers(text string, count int) ([]int64, error) {
	words := strings.Fields(text)
	if len(words) != count {
		return nil, fmt.Errorf("%d numbers in %q, want %d", len(words), text, count)
	}
	numbers := make([]int64, count)
	for i, word := range words {
		var err error
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// tell remembers and reports the news that came with a reply to a question under
// the quotas. It returns them with the time of the reply. Blank news tell nothing.
func (f *fair) tell(n news, r reply, t *quotaSet) news {
	n.Asked, n.Arrived, n.sent, n.carried = r.ran, r.arrived, r.sent, r.carried
	if n.Queue == "" {
		return n
	}
	f.memory.hear(&n, t)
	f.report(&n.News)
	return n
}

func (f *fair) report(n *engine.News) {
	if f.heard != nil {
		f.heard(n)
	}
}
