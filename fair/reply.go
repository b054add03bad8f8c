package fair

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// reply is what a script returned.
type reply struct {
	text    string // the head, "" if there is none
	head    head
	wrote   bool    // the head tells what was granted and is new
	totals  []int64 // of the further logs, if it was written
	news    engine.News
	numbers []int64 // what follows
}

// decode reads what answer of lua/fair/write.lua returns, and what follows it. A
// script that only reads does not tell the totals of further logs.
func decode(raw any, r *rules, reads bool) (*reply, error) {
	words, _ := raw.([]any)
	if len(words) < 3 {
		return nil, unexpected(raw)
	}
	text, isText := words[0].(string)
	a := &reply{text: text}
	for _, word := range words[1:] {
		number, isNumber := word.(int64)
		if !isNumber {
			return nil, unexpected(raw)
		}
		a.numbers = append(a.numbers, number)
	}
	var ok bool
	if a.head, ok = parseHead(text); !isText || text != "" && !ok {
		return nil, unexpected(raw)
	}
	shift, wrote := a.numbers[0], a.numbers[1]
	a.wrote, a.numbers = wrote > 0, a.numbers[2:]
	a.news = engine.News{
		Queue: a.head.id, Void: a.head.void, Offset: a.head.offset, Now: a.head.offset - shift,
		Paused: max(0, micros(a.head.from+shift)), Restored: wrote == 2,
	}
	if further := len(r.logs) - 1; !reads {
		if len(a.numbers) < further {
			return nil, unexpected(raw)
		}
		a.totals, a.numbers = a.numbers[:further], a.numbers[further:]
	}
	return a, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// until is how long after the answer a slot comes.
func (a *reply) until(slot int64) time.Duration { return max(0, micros(slot+a.news.Offset-a.news.Now)) }

func unexpected(raw any) error {
	return fmt.Errorf("%w: the script replied %.200v", engine.ErrOutcomeUnknown, raw)
}

// answers reads what lua/fair/take.lua returns for requests.
func (a *reply) answers(requests []engine.Request, r *rules) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 0, len(requests))
	for i := 0; i+1 < len(a.numbers); i += 2 {
		slot, count := a.numbers[i], a.numbers[i+1]
		left := requests[len(answers):]
		if count == 0 { // all that are left of the run
			count = -int64(countEqual(left))
		}
		if int64(len(left)) < max(count, -count) {
			return nil, unexpected(a.numbers)
		}
		for range max(count, -count) {
			request := &requests[len(answers)]
			answers = append(answers, a.answer(request, slot, verdictOf(a.numbers[i+1]), r))
		}
	}
	if len(answers) != len(requests) {
		return nil, unexpected(a.numbers)
	}
	return answers, nil
}

func verdictOf(count int64) engine.Verdict {
	switch {
	case count > 0:
		return engine.Granted
	case count < 0:
		return engine.Refused
	}
	return engine.NotYet
}

func (a *reply) answer(request *engine.Request, slot int64, verdict engine.Verdict, r *rules) engine.Answer {
	answer := engine.Answer{Verdict: verdict, Wait: a.until(slot)}
	switch {
	case verdict == engine.Granted:
		answer.Turn = engine.Turn{
			Queue: a.news.Queue, Slot: slot, N: request.N, Amounts: request.Amounts,
			Cost: r.cost(request.N, request.Amounts),
		}
	case verdict == engine.Refused && request.MaxWait > longestWait:
		answer.Err = engine.ErrFull
	}
	return answer
}

// status reads what lua/fair/status.lua returns.
func (a *reply) status(r *rules) (engine.Status, error) {
	if len(a.numbers) != 3*len(r.logs) {
		return engine.Status{}, unexpected(a.numbers)
	}
	status := engine.Status{Paused: a.news.Paused, Delay: a.until(a.numbers[2])}
	status.Available, status.Queued = int(max(0, a.numbers[0])), int(a.numbers[1])
	for i := 1; i < len(r.logs); i++ {
		if status.Units == nil {
			status.Units = map[string]engine.UnitStatus{}
		}
		status.Units[r.logs[i].unit] = engine.UnitStatus{
			Available: int(max(0, a.numbers[3*i])), Queued: int(a.numbers[3*i+1]),
		}
	}
	return status, nil
}
