// Package ctxerr words the error of a caller whose ctx has ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
)

// Ended says what became of the call of a caller whose ctx has ended. The error
// matches ctx's error and its cause.
func Ended(ctx context.Context, what string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("fairlimit: %s: %w", what, cause)
	}
	return fmt.Errorf("fairlimit: %s: %w: %w", what, err, cause)
}
