package fairlimit

import (
	"context"
	"fmt"
	"time"
)

// broken is a limiter that could not be made by a function without an error: every
// call returns why.
type broken struct{ why error }

var _ Limiter = broken{}

func breaks(format string, args ...any) Limiter {
	return broken{fmt.Errorf("%w: %s", ErrInvalidOption, fmt.Sprintf(format, args...))}
}

func (b broken) Wait(context.Context) error                 { return b.why }
func (b broken) WaitN(context.Context, int) error           { return b.why }
func (b broken) Allow(context.Context) (bool, error)        { return false, b.why }
func (b broken) AllowN(context.Context, int) (bool, error)  { return false, b.why }
func (b broken) Status(context.Context) (Status, error)     { return Status{}, b.why }
func (b broken) Reset(context.Context) error                { return b.why }
func (b broken) Pause(context.Context, time.Duration) error { return b.why }
