package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/gate"
)

// ErrNoDelay is what [Transport.OnError] hears of a 429 that does not say, in any
// way that [RetryAfter] can read, for how long.
var ErrNoDelay = errors.New("httplimit: a 429 that does not say when to come back")

// DefaultMaxPause is the longest pause that an answer can cause, unless
// [Transport.MaxPause] says otherwise.
const DefaultMaxPause = gate.DefaultMaxPause

// Waiter is what a [Transport] needs. A [fairlimit.Limiter] is one, and so is a
// *rate.Limiter of golang.org/x/time/rate.
//
// A Transport uses further methods if the limiter has them. Without WaitN, a
// request for more than one permit is an error, and so is one for amounts
// without Take. Without Pause, as on package window, the Transport holds back only
// its own requests.
//
//	WaitN(ctx context.Context, n int) error
//	Take(ctx context.Context, a fairlimit.Amounts) (*fairlimit.Turn, error)
//	Pause(ctx context.Context, d time.Duration) error // holds back everybody
//	LearnQuotas(ctx context.Context, quotas ...fairlimit.Quota) error
type Waiter interface {
	Wait(ctx context.Context) error
}

// Transport is an [http.RoundTripper] whose requests wait for their turn. If
// the upstream says how long it wants to be left alone, the Transport pauses
// the limiter for so long. What was left until a request's turn comes on top of
// the pause: see [fairlimit.Queue.Pause].
//
// Only Limiter is required. Do not change the fields after the first request,
// and do not copy a Transport. Any number of goroutines may use it. It holds no
// goroutine or timer while idle.
type Transport struct {
	// Limiter is asked before each request, under the request's ctx, which ends
	// with the Timeout of [http.Client]. If the turn would come after that, nothing
	// is sent, and the limiter's error comes at once. It matches
	// [context.DeadlineExceeded].
	Limiter Waiter

	// Base sends the requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Permits is what a request costs. Nil means 1 for every request. A request
	// for 0 permits goes at once, even during a pause. If the number is
	// negative, the error matches [fairlimit.ErrInvalidPermits]. If it is more
	// than 1 and the limiter has no WaitN, the error matches
	// [fairlimit.ErrUnsupported].
	Permits func(*http.Request) int

	// Amounts is what a request takes of each unit of a [fairlimit.Queue], in
	// place of Permits: see [fairlimit.WithUnit]. It must not read the body of
	// the request, but GetBody gives it another. If the limiter has no Take, the
	// error matches [fairlimit.ErrUnsupported]. Permits and Amounts together
	// match [fairlimit.ErrInvalidOption].
	Amounts func(*http.Request) fairlimit.Amounts

	// Used reads what a request has really used of each unit, and the Transport
	// then settles its turn. It is called once, when the caller has read the body
	// of the response to its end, or closes it, with what the caller has seen: all
	// of it up to 1 MiB, and else the last 64 KiB. It must not read the body of
	// the response. If it returns false, or if no response came, the turn counts
	// as it was reserved.
	//
	// The caller does not wait for Redis: the settlements of 50 ms go there
	// together. A program that ends at once may leave its last turns as they were
	// reserved. Without Amounts a request takes one call, and Used tells the rest.
	// If Base sent the request repeatedly, only the last turn is settled.
	Used func(*http.Response, []byte) (fairlimit.Amounts, bool)

	// After says how long the upstream wants to be left alone, counted from
	// received, when the header of the response arrived. It is called for each
	// response that refuses: status 429, 503 and 529, and 403 if that has a
	// Retry-After or says that no request remains. It must not read the body.
	// Nil means [RetryAfter].
	After func(resp *http.Response, received time.Time) (pause time.Duration, ok bool)

	// MaxPause bounds each pause. 0 means [DefaultMaxPause]. If it is negative or
	// less than a microsecond, the error matches [fairlimit.ErrInvalidOption].
	MaxPause time.Duration

	// Learn stores the quotas that responses announce in RateLimit-Policy, for all
	// limiters made [fairlimit.WithStoredQuota]. All processes together store once a
	// minute at most, and no response waits for that. If the limiter goes by no
	// stored quotas, OnError hears an error that matches [fairlimit.ErrInvalidOption].
	Learn bool

	// OnError is called if the limiter could not pause, a turn could not be
	// settled, or a quota could not be learned. The response is returned as usual.
	// If pausing failed, this Transport holds back its own requests. OnError is also
	// called with an error that matches [ErrNoDelay] if a 429 says nothing that
	// [RetryAfter] can read; nobody is paused then. It may run after RoundTrip has
	// returned, and several times at once. It may be nil.
	OnError func(error)

	gate        gate.Gate
	settlements settlements
	looked      atomic.Pointer[time.Time] // when it compared a policy last
}

// statusOverloaded has no name of its own; Anthropic sends it.
const statusOverloaded = 529

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip waits for the request's turn and sends it. If Base sends it again by
// itself, it waits for a turn again. If the response refuses, the limiter is
// paused before RoundTrip returns. That takes at most 100 ms. If Redis is slower,
// it records the pause later.
//
// RoundTrip returns an error of the limiter as it is, so that [errors.As] finds
// a [*fairlimit.RefusedError]. A request is also refused if a pause ends after
// its ctx's deadline.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	turn, err := t.wait(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.send(req, func() (err error) {
		turn, err = t.wait(req)
		return err
	})
	if err == nil && resp != nil {
		t.learn(req.Context(), resp.Header)
		t.heed(req.Context(), resp, time.Now())
		if turn != nil && t.Used != nil {
			t.settleAfter(req.Context(), resp, turn)
		}
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

// wait returns when the request may be sent, with the turn if it has amounts.
func (t *Transport) wait(req *http.Request) (*fairlimit.Turn, error) {
	if err := gate.CheckMaxPause(t.MaxPause); err != nil {
		return nil, err
	}
	if t.Amounts != nil || t.Used != nil {
		return t.takeAmounts(req)
	}
	permits := 1
	if t.Permits != nil {
		permits = t.Permits(req)
	}
	return nil, t.gate.Enter(req.Context(), t.Limiter, permits)
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
	pause, ok := after(resp, received)
	switch {
	case ok && pause > 0:
		t.gate.Shut(ctx, t.Limiter, gate.Bounded(pause, t.MaxPause), t.OnError)
	case !ok && t.After == nil && t.OnError != nil && resp.StatusCode == http.StatusTooManyRequests &&
		!cached(resp.Header):
		t.OnError(noDelay(resp.Header))
	}
}

// noDelay is an ErrNoDelay with the headers that may have been meant.
func noDelay(header http.Header) error {
	said := http.Header{}
	for name, values := range header {
		if lower := strings.ToLower(name); strings.Contains(lower, "retry") || strings.Contains(lower, "limit") {
			said[name] = values
		}
	}
	if len(said) == 0 {
		return ErrNoDelay
	}
	return fmt.Errorf("%w: %.60q", ErrNoDelay, said)
}

// refuses reports whether the upstream refused because of too many requests.
// 403 is also for those who may not ask at all, so it has to say more.
func refuses(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
		return true
	case http.StatusForbidden:
		return hasDelay(resp.Header) || exhausted(resp.Header)
	}
	return false
}
