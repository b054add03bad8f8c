package fair

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// outcome is what the script replies to 'take'.
type outcome struct {
	answers []engine.Answer
	seen    seen          // zero if nothing was written
	left    time.Duration // that what was seen lasts
}

// decode is the one place that knows the replies of lua/fair/take.lua. The
// requests are those that one question asked for.
func (f *fair) decode(reply any, requests []engine.Request) (outcome, error) {
	var o outcome
	var err error
	switch reply := reply.(type) {
	case int64:
		if reply < 0 {
			err = errors.New("a wait below 0")
		} else {
			o.answers, err = answersOf([]int64{reply, -int64(len(requests)), 0}, requests, seen{})
		}
	case string:
		o, err = f.decodePlain(reply, requests)
	case []any:
		o, err = decodeTriples(reply, requests)
	default:
		err = fmt.Errorf("a %T", reply)
	}
	if err != nil {
		return outcome{}, fmt.Errorf("%w: the script replied %.200q: %w",
			engine.ErrOutcomeUnknown, fmt.Sprint(reply), err)
	}
	return o, nil
}

// decodePlain: all requests were granted at the newest slot, or where one
// permit fits at a time, one length apart up to it.
func (f *fair) decodePlain(reply string, requests []engine.Request) (outcome, error) {
	s, newest, _, err := parseSeen(reply)
	if err != nil {
		return outcome{}, err
	}
	wait, step, length := newest-s.clock, int64(0), f.windows[0].Length
	if f.windows[0].Permits == 1 {
		step = length
		wait -= int64(len(requests)-1) * step
	}
	s.newest, s.end = newest, newest+length
	o := outcome{seen: s, left: microseconds(s.end - s.clock)}
	o.answers, err = answersOf([]int64{wait, int64(len(requests)), step}, requests, s)
	return o, err
}

// decodeTriples: the queue's position, its end and its offset to the server's
// clock, then answers in runs.
func decodeTriples(reply []any, requests []engine.Request) (o outcome, err error) {
	if len(reply) < 4 || len(reply)%3 != 1 {
		return outcome{}, fmt.Errorf("%d elements", len(reply))
	}
	text, isText := reply[0].(string)
	if !isText {
		return outcome{}, fmt.Errorf("a %T first", reply[0])
	}
	if text != "" {
		var newest, end, offset int64
		var rest string
		if o.seen, newest, rest, err = parseSeen(text); err != nil {
			return outcome{}, err
		}
		word, last, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
		if end, err = strconv.ParseInt(word, 10, 64); err != nil {
			return outcome{}, err
		}
		if offset, err = strconv.ParseInt(last, 10, 64); err != nil {
			return outcome{}, err
		}
		o.seen.newest, o.seen.end, o.left = newest-offset, end-offset, microseconds(end-o.seen.clock)
	}
	numbers, err := integers(reply[1:])
	if err != nil {
		return outcome{}, err
	}
	o.answers, err = answersOf(numbers, requests, o.seen)
	return o, err
}

// answersOf unfolds runs of answers: the wait of the first, how many there
// are, negative where they were refused, and how much longer each waits than
// the one before it.
func answersOf(runs []int64, requests []engine.Request, s seen) ([]engine.Answer, error) {
	answers := make([]engine.Answer, 0, len(requests))
	generation := s.generation()
	for ; len(runs) > 0; runs = runs[3:] {
		wait, count, step, granted := runs[0], runs[1], runs[2], runs[1] > 0
		if !granted {
			count = -count
		}
		if count < 1 || count > int64(len(requests)-len(answers)) || granted && generation == "" ||
			wait < 0 && (granted || wait != full) {
			return nil, fmt.Errorf("%d answers too many, or a run of none", count)
		}
		for range count {
			a := engine.Answer{Granted: granted, Wait: microseconds(wait)}
			switch {
			case granted:
				a.Grant = engine.Grant{ID: generation, At: s.clock + wait, N: requests[len(answers)].N, Made: s.clock}
			case wait == full:
				a = engine.Answer{Err: engine.ErrFull}
			}
			answers = append(answers, a)
			wait += step
		}
	}
	return answers, nil
}

// full is the wait of a request that the queue cannot count any more.
const full = -1

// integers returns the elements of a reply as numbers.
func integers(elements []any) ([]int64, error) {
	numbers := make([]int64, len(elements))
	for i, e := range elements {
		n, ok := e.(int64)
		if !ok {
			return nil, fmt.Errorf("a %T instead of a number", e)
		}
		numbers[i] = n
	}
	return numbers, nil
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
