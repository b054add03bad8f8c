package llmlimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/estimate"
	"github.com/fairlimit/fairlimit/httplimit"
	"github.com/fairlimit/fairlimit/internal/gate"
)

// Units that providers count. Each counts some of them: see above.
const (
	Tokens       = "tokens" // input and output together
	InputTokens  = "input"
	OutputTokens = "output"
)

// New returns a Transport that takes a turn of the queue for each request, and
// settles it: see above. Its Base, OnError and MaxPause may be set before the
// first request. Errors of the queue are returned as they are, and nothing is
// sent. An SDK that retries asks again, and each attempt takes a turn of its own.
//
// The queue and the Transport share what was learned of models: use one Transport
// for all clients in a process.
func New(queue *fairlimit.Queue, p Provider) *httplimit.Transport {
	if queue == nil || p.rules == nil {
		return &httplimit.Transport{Limiter: incomplete{}}
	}
	l := &limiter{Queue: queue, rules: p.rules, guesses: &estimate.Estimator{}}
	l.transport = &httplimit.Transport{Limiter: l, Amounts: l.amounts, After: after}
	if p.rules.used != nil {
		l.transport.Used = l.used
	}
	return l.transport
}

// incomplete is a limiter that lets nobody go.
type incomplete struct{}

func (incomplete) Wait(context.Context) error {
	return fmt.Errorf("%w: llmlimit: nil queue, or no provider", fairlimit.ErrInvalidOption)
}

// limiter is a queue, with what its provider adds.
type limiter struct {
	*fairlimit.Queue
	rules     *rules
	guesses   *estimate.Estimator
	transport *httplimit.Transport
	gate      gate.Gate // for pauses that a body asks for
}

func (l *limiter) amounts(req *http.Request) fairlimit.Amounts {
	r := parse(req)
	if r.other(l.rules) {
		return nil
	}
	return l.rules.reserve(r, l.guesses)
}

func (l *limiter) used(resp *http.Response, body []byte) (fairlimit.Amounts, bool) {
	if l.rules.delay != nil && resp.StatusCode == http.StatusTooManyRequests {
		l.pause(l.rules.delay(body))
	}
	a := read(body)
	if !a.tells() || resp.StatusCode != http.StatusOK || resp.Request == nil {
		return nil, false
	}
	r := parse(resp.Request)
	if r.other(l.rules) {
		return nil, false
	}
	used := l.rules.used(r, a, l.guesses)
	return used, len(used) > 0
}

// Take is that of the queue. A guess that is more than the quota ever allows is
// lowered until it fits.
func (l *limiter) Take(ctx context.Context, a fairlimit.Amounts) (*fairlimit.Turn, error) {
	for {
		turn, err := l.Queue.Take(ctx, a)
		if err == nil || !errors.Is(err, fairlimit.ErrExceedsQuota) || !l.lower(a, err) {
			return turn, err
		}
	}
}

// lower halves the guesses that the error names, and reports whether there are
// any.
func (l *limiter) lower(a fairlimit.Amounts, err error) (lower bool) {
	for _, unit := range l.rules.guessed {
		if a[unit] > 1 && strings.Contains(err.Error(), fmt.Sprint(a[unit], " ", unit, " ")) {
			a[unit], lower = a[unit]/2, true
		}
	}
	return lower
}

func (l *limiter) pause(d time.Duration) {
	if d > 0 {
		go l.gate.Shut(context.Background(), l.Queue, gate.Bounded(d, l.transport.MaxPause), l.transport.OnError)
	}
}
