package fair

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// head is how many elements of the reply to 'take' stand before the answers.
const head = 6

// decode returns what the script replies to 'take': what to remember of the queue and for how long, nothing if nothing was written, and the answers.
// A run of answers is the first one's wait, how many there are, negative where they were refused, and how much longer each waits than the one
// before it.
func decode(reply any, requests []engine.Request) (t told, left time.Duration, answers []engine.Answer, err error) {
	numbers, err := integers(reply, 1)
	if err != nil || len(numbers)%3 != (head-1)%3 {
		return told{}, 0, nil, unexpected(reply)
	}
	t.generation, _ = reply.([]any)[0].(string)
	sequence, newest, end, offset, now := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
	t.sequence, t.clock, t.newest, t.end = sequence, now, newest-offset, end-offset
	answers = make([]engine.Answer, 0, len(requests))
	for run := numbers[head-1:]; len(run) > 0; run = run[3:] {
		wait, count, step, granted := run[0], run[1], run[2], true
		if count < 0 {
			count, granted = -count, false
		}
		if count > int64(len(requests)-len(answers)) {
			return told{}, 0, nil, unexpected(reply)
		}
		for range count {
			a := engine.Answer{Granted: granted, Wait: microseconds(wait)}
			if granted {
				a.Grant = engine.Grant{ID: t.generation, At: now + wait, N: requests[len(answers)].N}
			}
			answers = append(answers, a)
			wait += step
		}
	}
	return t, microseconds(end - now), answers, nil
}

// integers returns the elements of a reply from the given one on.
func integers(reply any, from int) ([]int64, error) {
	elements, _ := reply.([]any)
	if len(elements) <= from {
		return nil, unexpected(reply)
	}
	numbers := make([]int64, 0, len(elements)-from)
	for _, e := range elements[from:] {
		n, ok := e.(int64)
		if !ok {
			return nil, unexpected(reply)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: the script replied %v", engine.ErrOutcomeUnknown, reply)
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
