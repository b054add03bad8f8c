package fairlimit

import (
	"github.com/fairlimit/fairlimit/internal/naming"
	"github.com/fairlimit/fairlimit/internal/whereis"
)

// named says of which limiter an error is, and where Redis was looked for. A
// refusal stays one as it is.
func (l *limiter) named(err error) error {
	if r, ok := err.(*RefusedError); ok {
		r.limiter = l.name
		return r
	}
	return naming.Of(l.name, whereis.Of(l.rdb, err, l.answered.Load()))
}
