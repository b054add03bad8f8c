package fair

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// reply is what a script returned.
type reply struct {
	rules   *rules // by which it was asked
	text    string // the head, "" if there is none
	head    head
	wrote   bool // the head is new
	news    engine.News
	numbers []int64 // what follows
}

// decode reads what answer of lua/fair/open.lua returns, and what follows it.
func decode(raw any) (*reply, error) {
	words, _ := raw.([]any)
	if len(words) < 3 {
		return nil, unexpected(raw)
	}
	a := &reply{}
	var isText, isHead bool
	a.text, isText = words[0].(string)
	a.head, isHead = parseHead(a.text)
	if !isText || a.text != "" && !isHead {
		return nil, unexpected(raw)
	}
	for _, word := range words[1:] {
		number, isNumber := word.(int64)
		if !isNumber {
			return nil, unexpected(raw)
		}
		a.numbers = append(a.numbers, number)
	}
	running, wrote := a.numbers[0], a.numbers[1]
	a.wrote, a.numbers = wrote > 0, a.numbers[2:]
	a.news = engine.News{
		Queue: a.head.id, Void: a.head.void, Offset: a.head.offset, Now: a.head.offset + running,
		Paused: max(0, micros(a.head.stoodAt-running)), Restored: wrote == 2,
	}
	return a, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// until is how long after the answer a slot comes.
func (a *reply) until(slot int64) time.Duration { return max(0, micros(slot+a.news.Offset-a.news.Now)) }

func unexpected(raw any) error {
	return fmt.Errorf("%w: the script replied %.200v", engine.ErrOutcomeUnknown, raw)
}

// decisions reads what lua/fair/take.lua returns for requests.
func (a *reply) decisions(requests []engine.Request) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 0, len(requests))
	for numbers := a.numbers; len(numbers) >= 3; numbers = numbers[3:] {
		slot, verdict, count := numbers[0], engine.Verdict(numbers[1]), numbers[2]
		if count > int64(len(requests)-len(answers)) {
			return nil, unexpected(a.numbers)
		}
		for range count {
			answers = append(answers, a.answer(&requests[len(answers)], slot, verdict))
		}
	}
	if len(answers) != len(requests) {
		return nil, unexpected(a.numbers)
	}
	return answers, nil
}

func (a *reply) answer(request *engine.Request, slot int64, verdict engine.Verdict) engine.Answer {
	answer := engine.Answer{Verdict: verdict, Wait: a.until(slot)}
	switch {
	case verdict == engine.Granted:
		answer.Turn = engine.Turn{Queue: a.news.Queue, Slot: slot, N: request.N, Amounts: request.Amounts}
	case verdict == engine.Refused && request.MaxWait > longestWait:
		answer.Err = engine.ErrFull
	}
	return answer
}

// status reads what lua/fair/status.lua returns.
func (a *reply) status() (engine.Status, error) {
	logs := a.rules.logs
	if len(a.numbers) != 3*len(logs) {
		return engine.Status{}, unexpected(a.numbers)
	}
	status := engine.Status{Paused: a.news.Paused, Delay: a.until(a.numbers[2])}
	status.Available, status.Queued = int(max(0, a.numbers[0])), int(a.numbers[1])
	for i := 1; i < len(logs); i++ {
		if status.Units == nil {
			status.Units = map[string]engine.UnitStatus{}
		}
		status.Units[logs[i].unit] = engine.UnitStatus{
			Available: int(max(0, a.numbers[3*i])), Queued: int(a.numbers[3*i+1]),
		}
	}
	return status, nil
}
