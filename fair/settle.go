package fair

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fairlimit/fairlimit/engine"
)

// kindOf is how a grant is given back: if its slot is ahead, in any case, or as a
// turn that is settled. See lua/fair/debts.lua.
func kindOf(g engine.Grant) int {
	switch {
	case g.Settles:
		return asSettled
	case g.Unused:
		return 1
	}
	return 0
}

const asSettled = 2

// settle gives grants back, or settles them. It asks again for debts that are
// booked in more pieces than one run of the script books. These belong to the
// queue that booked the first of them: one that has taken its place owes nothing.
func (f *fair) settle(ctx context.Context, t *quotaSet, grants []engine.Grant) error {
	logs, of := f.logsOf(grants)
	args := f.unitArgs(t)
	for i, g := range grants {
		args = append(append(args, g.ID, g.At, g.Made, kindOf(g), of[i], g.N), t.inOrder(g.Amounts)...)
	}
	seen, owed, err := f.settleOnce(ctx, t, args, logs...)
	queue := seen.generation()
	for err == nil && seen.generation() == queue && slices.Max(owed) > 0 {
		t = t.underAnyText()
		args = append(f.unitArgs(t), queue, 0, "", asSettled, 0)
		for _, n := range owed {
			args = append(args, -n)
		}
		if seen, owed, err = f.settleOnce(ctx, t, args); err != nil {
			return fmt.Errorf("%w: a part of the debts was booked: %w", engine.ErrOutcomeUnknown, err)
		}
	}
	if err == nil && seen.generation() == queue {
		f.debts.learn(f, grants, seen)
	}
	return err
}

// settleOnce asks one question. It returns what it saw of the queue, none if
// nothing was written, and what is still owed of each unit.
func (f *fair) settleOnce(
	ctx context.Context, t *quotaSet, args []any, logs ...string,
) (seen watermark, owed []int64, err error) {
	r, err := f.askUnder(ctx, f.scripts.settle, t, args, logs...)
	if err != nil {
		return seen, nil, err
	}
	return f.learnSettled(t, r)
}

// learnSettled is the one place that knows the reply of lua/fair/settled.lua.
func (f *fair) learnSettled(t *quotaSet, r reply) (seen watermark, owed []int64, err error) {
	elements, _ := r.said.([]any)
	if len(elements) != 4+len(t.units) {
		return seen, nil, misread(r.said, fmt.Errorf("%d elements", len(elements)))
	}
	var o outcome
	owed, notNumbers := integers(elements[3:])
	if err = cmp.Or(o.learn(elements[0], elements[1]), o.count(elements[2]), notNumbers); err != nil {
		return seen, nil, misread(r.said, err)
	}
	f.learn(t, &o, r)
	return o.watermark, owed, nil
}
