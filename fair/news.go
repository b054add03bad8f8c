package fair

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlimit/fairlimit/engine"
)

// The marks of news, as lua/fair/clock.lua has them.
const (
	markReset = 1
	markLost  = 2
)

// parseNews reads what lua/fair/clock.lua says of a queue.
func parseNews(reply any) (news engine.News, err error) {
	text, isText := reply.(string)
	if !isText {
		return news, fmt.Errorf("a %T instead of news", reply)
	}
	generation, rest, _ := strings.Cut(text, " ")
	if len(generation) != generationLength {
		return news, fmt.Errorf("no news: %q", text)
	}
	numbers, err := parseNumbers(rest, 5)
	if err != nil {
		return news, err
	}
	return engine.News{
		Queue: generation, Clock: numbers[0], Stands: microseconds(max(0, numbers[1])), Late: max(0, -numbers[1]),
		SlowUntil: numbers[2], SlowPace: numbers[3], Reset: numbers[4]&markReset != 0, Lost: numbers[4]&markLost != 0,
	}, nil
}

// news are those of a queue whose clock runs.
func (s seen) news() engine.News {
	return engine.News{Queue: s.generation(), Clock: s.clock}
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

// tell reports news that are some.
func (f *fair) tell(news engine.News, r reply) {
	if f.heard != nil && news.Queue != "" {
		news.Asked, news.Arrived = r.sent, r.arrived
		f.heard(&news)
	}
}
