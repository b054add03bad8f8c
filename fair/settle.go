package fair

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlimit/fairlimit/engine"
)

// How a grant is given back: see lua/fair/debts.lua.
const (
	ifAhead = iota
	ifUnused
	asSettled
)

// settled is what one question has settled.
type settled struct {
	queue  string // that answered; "" if nothing was written
	newest int64  // its newest slot
	owed   []int64
}

// settle gives grants back, or settles them. It asks again for debts that are
// booked in more pieces than one run of the script books. These belong to the
// queue that booked the first of them: one that has taken its place owes nothing.
func (f *fair) settle(ctx context.Context, t *quotaSet, grants []engine.Grant) error {
	return engine.GiveBackInParts(grants, mostGiven, func(part []engine.Grant) error {
		logs, of := f.logsOf(part)
		args := f.unitArgs(t)
		for i, g := range part {
			args = append(append(args, g.ID, g.At, g.Made, kindOf(g), of[i], g.N), t.inOrder(g.Amounts)...)
		}
		first, err := f.settleOnce(ctx, t, args, logs...)
		last := first
		for err == nil && last.queue == first.queue && slices.Max(last.owed) > 0 {
			args = append(f.unitArgs(t), first.queue, 0, "", asSettled, 0)
			for _, n := range last.owed {
				args = append(args, -n)
			}
			if last, err = f.settleOnce(ctx, t, args); err != nil {
				return fmt.Errorf("%w: a part of the debts was booked: %w", engine.ErrOutcomeUnknown, err)
			}
		}
		if err == nil && last.queue == first.queue {
			f.debts.learn(f, part, last)
		}
		return err
	})
}

func kindOf(g engine.Grant) int {
	switch {
	case g.Settles:
		return asSettled
	case g.Unused:
		return ifUnused
	}
	return ifAhead
}

// settleOnce asks one question.
func (f *fair) settleOnce(ctx context.Context, t *quotaSet, args []any, logs ...string) (settled, error) {
	r, err := f.ask(ctx, f.scripts.settle, args, logs...)
	if err != nil {
		return settled{}, err
	}
	return f.learnSettled(t, r)
}

// learnSettled is the one place that knows the reply of lua/fair/settled.lua.
func (f *fair) learnSettled(t *quotaSet, r reply) (s settled, err error) {
	elements, _ := r.said.([]any)
	if len(elements) != 4+len(t.units) {
		return s, misread(r.said, fmt.Errorf("%d elements", len(elements)))
	}
	var o outcome
	err = o.learn(elements[0], elements[1])
	if err == nil {
		err = o.count(elements[2])
	}
	if err == nil {
		s.owed, err = integers(elements[3:])
	}
	if err != nil {
		return s, misread(r.said, err)
	}
	s.queue, s.newest = o.watermark.generation(), o.watermark.newest
	f.learn(t, &o, r)
	return s, nil
}
