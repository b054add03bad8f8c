package fair

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlimit/fairlimit/engine"
)

// news are those of a queue. In the server's time they have until when it is
// remembered that the queue was reset, 0 if it was not, and when they were
// told. The watermark is of the state that they are of.
type news struct {
	engine.News
	watermark        watermark
	resetEnd, server int64
}

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
	numbers, err := parseNumbers(text[wholeWatermark:], 11)
	if err != nil {
		return n, err
	}
	return news{watermark: w, resetEnd: numbers[4], server: numbers[7], News: engine.News{
		Queue: w.generation(), Clock: numbers[0], Stands: microseconds(max(0, numbers[1])), Late: max(0, -numbers[1]),
		SlowUntil: numbers[2], SlowPace: numbers[3], ThenUntil: numbers[8], ThenPace: numbers[9],
		Reset: numbers[4] > 0, Lost: numbers[5] > 0, Differs: numbers[6] > 0, Moves: numbers[10],
	}}, nil
}

// news are those of a queue whose clock runs, by an offset to the server's.
func (w watermark) news(offset int64) news {
	return news{watermark: w, server: w.clock - offset, News: engine.News{Queue: w.generation(), Clock: w.clock}}
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
	n.Asked, n.Arrived = r.sent, r.arrived
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
