package engines

import (
	"context"
	"net/http"
	"sync"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// learning is a limiter whose calls wait in the transport of an HTTP client.
type learning struct {
	httplimit.Transport
	base sync.Once
}

func openLearning(s Setup) (Acquirer, error) {
	limiter, err := open(s, fairlimit.WithGuard(s.Guard), fairlimit.WithStoredQuota())
	if err != nil {
		return nil, err
	}
	return &learning{Transport: httplimit.Transport{Limiter: limiter.(ours).Limiter, Learn: true}}, nil
}

// Acquire leaves the waiting to the transport.
func (l *learning) Acquire(context.Context, int) error { return nil }

// Over returns one transport for all callers of a process.
func (l *learning) Over(base http.RoundTripper) http.RoundTripper {
	l.base.Do(func() { l.Base = base })
	return &l.Transport
}
