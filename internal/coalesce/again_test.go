package coalesce

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// TestWhoeverLinedUpAgainLeavesWhenTheCtxOfItsWaitEnds has that end sooner than
// the ctx it was lined up with, which never ends.
func TestWhoeverLinedUpAgainLeavesWhenTheCtxOfItsWaitEnds(t *testing.T) {
	grant := []engine.Answer{{Granted: true, Grant: engine.Grant{ID: "grant", N: 1}}}
	for _, c := range []struct {
		what    string
		take    time.Duration
		answers []engine.Answer
		err     error
		says    string
		back    int
	}{
		{"its question fails", 10 * time.Millisecond, nil, engine.ErrOutcomeUnknown, "its question failed", 0},
		{"it is refused", 10 * time.Millisecond, []engine.Answer{{Wait: time.Hour}}, nil, "granted nothing", 0},
		{"it is granted a turn", 10 * time.Millisecond, grant, nil, "given back", 1},
		{"there is no answer", time.Second, grant, nil, "before the answer came", 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &timed{take: c.take}
				e.answers = func([]engine.Request) ([]engine.Answer, error) { return c.answers, c.err }
				b := e.asker()
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Millisecond, errGate)
				defer cancel()
				r := &Request{Ctx: t.Context(), N: 1, MaxWait: engine.Forever, Call: 1}
				b.LineUpAgain([]*Request{r})
				r.Ctx = ctx
				err := b.Ask(r)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, errGate, "the cause")
				if c.err != nil {
					require.ErrorIs(t, err, c.err)
				}
				assert.ErrorContains(t, err, c.says)
				assert.NotContains(t, err.Error(), "%!")
				time.Sleep(c.take)
				idle(t, b)
				assert.Len(t, e.givenBack(), c.back)
			})
		})
	}
}
