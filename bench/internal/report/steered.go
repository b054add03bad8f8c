package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Cells of the rows about what is done to a limiter while it is used.

func inWindow(e Engine) string {
	if len(e.MaxInEras) == 0 {
		return strconv.Itoa(e.MaxInWindow)
	}
	return numbers(e.MaxInEras)
}

// allowed is what the upstream allows in a window, one quota after the other.
func (r Report) allowed() string {
	if eras := r.Engines[0].EraPermits; len(eras) > 0 {
		return numbers(eras)
	}
	return strconv.Itoa(r.Quota.Permits)
}

func numbers(all []int) string {
	told := make([]string, len(all))
	for i, n := range all {
		told[i] = strconv.Itoa(n)
	}
	return strings.Join(told, "/")
}

func closedDoor(e Engine) string {
	if e.ClosedCalls == nil {
		return nothing
	}
	return fmt.Sprintf("%d / %s", *e.ClosedCalls, apart(*e.UnheardCalls, e.MachineCalls))
}

func idle(e Engine) string {
	if e.IdleMS == nil {
		return nothing
	}
	return short(*e.IdleMS)
}

func used(e Engine) string {
	if len(e.QuotaUsedMS) == 0 {
		return nothing
	}
	told := make([]string, len(e.QuotaUsedMS))
	for i, ms := range e.QuotaUsedMS {
		told[i] = short(ms)
	}
	return strings.Join(told, ", ")
}

// optional is the cell of a figure that not every scenario has.
func optional(n func(Engine) *int) func(Engine) string {
	return func(e Engine) string {
		if n(e) == nil {
			return nothing
		}
		return strconv.Itoa(*n(e))
	}
}
