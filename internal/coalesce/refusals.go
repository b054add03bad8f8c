package coalesce

import (
	"slices"

	"github.com/fairlimit/fairlimit/engine"
)

// refusals are what one question refused, of one line. No refusal covers
// another.
//
// A refusal of n permits at wait w also refuses every caller that lined up
// before the question went, asks for n or more and accepts less than w. Those
// callers could have been part of the question. There they would have been
// decided later in the same run, and nothing comes back within a run. So the
// slot of a later request for as many permits is no earlier: see
// [engine.Answer]. A caller that lined up after the question went is asked for:
// permits may have come back since.
type refusals []refusal

type refusal struct {
	n      int
	answer *engine.Answer
}

// refusalsOf collects what the answers to requests refuse.
func refusalsOf(answers []engine.Answer, requests []engine.Request) refusals {
	var all refusals
	for i := range answers {
		n, a := requests[i].N, &answers[i]
		if a.Granted || a.Left || a.Err != nil || all.of(engine.Request{N: n, MaxWait: a.Wait - 1}) != nil {
			continue
		}
		all = slices.DeleteFunc(all, func(r refusal) bool { return r.n >= n && r.answer.Wait <= a.Wait })
		all = append(all, refusal{n, a})
	}
	return all
}

// of returns the answer that refuses a request, or nil.
func (all refusals) of(r engine.Request) *engine.Answer {
	for _, refused := range all {
		if r.N >= refused.n && r.MaxWait < refused.answer.Wait {
			return refused.answer
		}
	}
	return nil
}

// settle, under mu, tells callers of a line that the question has refused them
// too, and returns the others. The question went for those up to last.
func (all refusals) settle(line []*caller, last uint64, done *result) []*caller {
	if len(all) == 0 {
		return line
	}
	return slices.DeleteFunc(line, func(c *caller) bool {
		if c.number > last {
			return false
		}
		answer := all.of(c.request.asOf(done.asked))
		return answer != nil && c.tellInLine(outcome{answer, done})
	})
}
