package fairlimit

import (
	"fmt"
	"strings"
)

// limiterError is an error of one limiter. Parts of it were made by code that
// does not know its name, and may each begin with the prefix.
type limiterError struct {
	limiter string
	err     error
}

func (e *limiterError) Error() string {
	return fmt.Sprintf("%s%.100q: %s", prefix, e.limiter, strings.ReplaceAll(e.err.Error(), prefix, ""))
}

func (e *limiterError) Unwrap() error { return e.err }

const prefix = "fairlimit: "

// named says of which limiter an error is. A refusal stays one as it is.
func (l *limiter) named(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := err.(*RefusedError); ok {
		r.limiter = l.name
		return r
	}
	return &limiterError{l.name, err}
}
