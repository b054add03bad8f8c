package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/door"
)

// DefaultMaxPause is the longest pause that an answer can cause, unless
// [Transport.MaxPause] says otherwise.
const DefaultMaxPause = 15 * time.Minute

// Waiter is what a [Transport] needs of a limiter. A [fairlimit.Limiter] is
// one, and so is a *rate.Limiter of golang.org/x/time/rate.
//
// Two more methods are used if the limiter has them. Without the first, a
// request for more than one permit is an error. Without the second, the
// Transport holds back its own requests.
//
//	WaitN(ctx context.Context, n int) error
//	Pause(ctx context.Context, d time.Duration) error // holds back everybody
type Waiter interface {
	Wait(ctx context.Context) error
}

// Transport is an [http.RoundTripper] whose requests wait for their turn, and
// which passes on to the limiter how long the upstream wants to be left alone.
//
// Only Limiter is required. The fields must not be changed after the first
// request. A Transport may be used by any number of goroutines and must not be
// copied. It holds no goroutine or timer while idle.
type Transport struct {
	// Limiter is asked before each request, under the request's ctx. If that
	// ends, or if the turn would come after its deadline, RoundTrip returns the
	// limiter's error and nothing was sent.
	Limiter Waiter

	// Base sends the requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Permits is what a request costs. Nil means 1 for every request. A request
	// for 0 permits goes at once, even during a pause. Less than 0 is an error
	// that matches [fairlimit.ErrInvalidPermits]. More than 1 of a limiter
	// without WaitN is one that matches [fairlimit.ErrUnsupported].
	Permits func(*http.Request) int

	// After says how long the upstream wants to be left alone, counted from
	// received, which is when the header of the response arrived. It is asked
	// for every response that refuses: status 429, 503, and 403 if it has a
	// Retry-After or says that no request remains. It must not read the body.
	// Nil means [RetryAfter].
	After func(resp *http.Response, received time.Time) (pause time.Duration, ok bool)

	// MaxPause bounds each pause. 0 means [DefaultMaxPause]. Less than 0 is an
	// error that matches [fairlimit.ErrInvalidOption].
	MaxPause time.Duration

	// OnError is told that the limiter could not pause. The response is handed
	// on nevertheless, and this Transport holds back its own requests instead.
	// OnError may run after RoundTrip has returned, and several times at once.
	// Nil means that nobody is told.
	OnError func(error)

	door door.Door
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip waits for the request's turn and sends it, once. If the response
// refuses, the limiter is paused before the response is handed on. That takes
// 100 ms at most: a pause that Redis is slow to record is recorded later.
//
// An error of the limiter is returned as it is, so that [errors.As] finds a
// [*fairlimit.RefusedError]. A pause that reaches beyond the deadline of the
// request's ctx refuses as well.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.wait(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(req)
	if err == nil && resp != nil {
		t.heed(req.Context(), resp, time.Now())
	}
	return resp, err
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections]: it passes the
// call on to Base, if that has the method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func (t *Transport) wait(req *http.Request) error {
	if t.MaxPause < 0 {
		return fmt.Errorf("%w: MaxPause is %v, want at least 0", fairlimit.ErrInvalidOption, t.MaxPause)
	}
	permits := 1
	if t.Permits != nil {
		permits = t.Permits(req)
	}
	return t.door.Enter(req.Context(), t.Limiter, permits)
}

// heed pauses the limiter if the response asks for it.
func (t *Transport) heed(ctx context.Context, resp *http.Response, received time.Time) {
	if !refuses(resp) {
		return
	}
	after := t.After
	if after == nil {
		after = RetryAfter
	}
	longest := t.MaxPause
	if longest == 0 {
		longest = DefaultMaxPause
	}
	if pause, ok := after(resp, received); ok && pause > 0 {
		t.door.Shut(ctx, t.Limiter, min(pause, longest), t.OnError)
	}
}

// refuses reports whether the upstream refused because of too many requests.
// 403 is also for those who may not ask at all, so it has to say more.
func refuses(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusForbidden:
		return hasDelay(resp.Header) || exhausted(resp.Header)
	}
	return false
}
