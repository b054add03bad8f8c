package fair

import (
	"fmt"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// answers decodes what the script returns for 'take': the generation, its clock, then for each run of equal answers the wait and how many
// requests got it, negative where they were refused.
func answers(reply any, requests []engine.Request) ([]engine.Answer, error) {
	numbers, err := integers(reply, 1)
	if err != nil || len(numbers)%2 != 1 {
		return nil, unexpected(reply)
	}
	generation, _ := reply.([]any)[0].(string)
	now := numbers[0]
	answers := make([]engine.Answer, 0, len(requests))
	for run := numbers[1:]; len(run) > 0; run = run[2:] {
		wait, count, granted := run[0], run[1], true
		if count < 0 {
			count, granted = -count, false
		}
		if count > int64(len(requests)-len(answers)) {
			return nil, unexpected(reply)
		}
		for range count {
			a := engine.Answer{Granted: granted, Wait: microseconds(wait)}
			if granted {
				a.Grant = engine.Grant{ID: generation, At: now + wait, N: requests[len(answers)].N}
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
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
