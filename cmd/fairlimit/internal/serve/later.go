package serve

import (
	"context"
	"fmt"

	"github.com/fairlimit/fairlimit"
)

// This file goes once package fairlimit has both methods.

// Resume ends a pause.
func Resume(ctx context.Context, q *fairlimit.Queue) error {
	if has, is := any(q).(interface{ Resume(context.Context) error }); is {
		return has.Resume(ctx)
	}
	return fmt.Errorf("resume: %w", fairlimit.ErrUnsupported)
}

// Requeue lets all who wait ask again, in order.
func Requeue(ctx context.Context, q *fairlimit.Queue) error {
	if has, is := any(q).(interface{ Requeue(context.Context) error }); is {
		return has.Requeue(ctx)
	}
	return fmt.Errorf("requeue: %w", fairlimit.ErrUnsupported)
}
