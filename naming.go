package fairlimit

import "github.com/fairlimit/fairlimit/internal/naming"

// named says of which limiter an error is. A refusal stays one as it is.
func (l *limiter) named(err error) error {
	if r, ok := err.(*RefusedError); ok {
		r.limiter = l.name
		return r
	}
	return naming.Of(l.name, err)
}
