package linear

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
)

// History is what callers asked of a queue, when, and what they were answered.
// Its methods may be called by any goroutine.
type History struct {
	windows []model.Window
	began   time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
	lost  int
}

// Begin begins the history of a queue that nobody has asked before. The quotas
// are those of its callers; they have no Burst.
func Begin(quotas ...engine.Quota) *History {
	h := &History{began: time.Now()}
	for _, q := range quotas {
		length := int64((q.Per + time.Microsecond - 1) / time.Microsecond)
		h.windows = append(h.windows, model.Window{Permits: q.Permits, Length: length})
	}
	return h
}

// Take asks the engine and notes it. An error that leaves the outcome open is
// noted, not returned; one that does not means that nothing was done.
func (h *History) Take(
	ctx context.Context, caller int, e engine.Engine, requests ...engine.Request,
) ([]engine.Answer, error) {
	call := h.now()
	told, err := e.Take(ctx, requests)
	return told, h.note(caller, call, take(requests), answers(told), err)
}

// GiveBack asks the engine and notes it, likewise.
func (h *History) GiveBack(ctx context.Context, caller int, e engine.Engine, grant engine.Grant) error {
	call := h.now()
	err := e.GiveBack(ctx, []engine.Grant{grant})
	return h.note(caller, call, back{grant}, done{}, err)
}

// Lost is how many calls were left open, of how many.
func (h *History) Lost() (lost, of int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost, len(h.calls)
}

// Check looks for an order that the definition allows, for so long. Illegal
// says that there is none, Unknown that the time was too short.
func (h *History) Check(patience time.Duration) porcupine.CheckResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	return porcupine.CheckOperationsTimeout(checked(h.windows), h.calls, patience)
}

// Lines are the calls for a person, in the order in which they began.
func (h *History) Lines() (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		lines = append(lines, fmt.Sprintf("%8d–%8d µs  caller %d: %T%v → %T%v",
			c.Call/1000, c.Return/1000, c.ClientId, c.Input, c.Input, c.Output, c.Output))
	}
	return lines
}

// never is when a call returns that may still happen.
const never = math.MaxInt64

func (h *History) note(caller int, call int64, input, output any, err error) error {
	end := h.now()
	switch {
	case errors.Is(err, engine.ErrOutcomeUnknown):
		output, end = unknown{}, never
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if end == never {
		h.lost++
	}
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: caller, Input: input, Call: call, Output: output, Return: end,
	})
	return nil
}

func (h *History) now() int64 { return int64(time.Since(h.began)) }
