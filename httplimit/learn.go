package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
)

// ErrBadPolicy is what [Transport.OnError] hears of a RateLimit-Policy that cannot
// be read, or that would be a quota of 0, of more than a million requests a second,
// or of more than eight windows. The header is ignored as a whole.
var ErrBadPolicy = errors.New("httplimit: a RateLimit-Policy that is no quota")

const (
	mostPolicies  = 8
	mostPerSecond = 1_000_000

	lookEvery  = time.Second     // how often a Transport compares a policy with the stored quotas
	learnBound = 5 * time.Second // ends a look that Redis does not answer
)

type learner interface {
	LearnQuotas(ctx context.Context, quotas ...fairlimit.Quota) error
}

// learn lets the limiter learn what the response announces. Nobody waits for it.
func (t *Transport) learn(ctx context.Context, header http.Header) {
	policies := header.Values("RateLimit-Policy")
	if !t.Learn || len(policies) == 0 || cached(header) {
		return
	}
	now, last := time.Now(), t.looked.Load()
	if last != nil && now.Sub(*last) < lookEvery || !t.looked.CompareAndSwap(last, &now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnBound)
		defer cancel()
		if err := learnFrom(ctx, t.Limiter, policies); err != nil && t.OnError != nil {
			t.OnError(err)
		}
	}()
}

func learnFrom(ctx context.Context, limiter Waiter, policies []string) error {
	quotas, err := quotasOf(policies)
	if err != nil || len(quotas) == 0 {
		return err
	}
	l, ok := limiter.(learner)
	if !ok {
		return fmt.Errorf("%w: Learn needs a *fairlimit.Queue, not %T", fairlimit.ErrInvalidOption, limiter)
	}
	if err := l.LearnQuotas(ctx, quotas...); err != nil {
		return fmt.Errorf("fairlimit: learn %v: %w", quotas, err)
	}
	return nil
}

// quotasOf reads the header RateLimit-Policy, of which two generations are in use:
//
//	"permin";q=50;w=60, "perhr";q=1000;w=3600;pk=:cHsdsRa894==:
//	50;w=60, 1000;w=3600;comment="an hour"
//
// Policies that count something else than requests, or have no window, are left
// out. See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers.
func quotasOf(policies []string) (quotas []fairlimit.Quota, err error) {
	for _, policy := range split(strings.Join(policies, ","), ',') {
		if policy = strings.TrimSpace(policy); policy == "" {
			continue
		}
		quota, err := quotaOf(policy)
		if err != nil {
			return nil, err
		}
		if quota.Permits > 0 {
			quotas = append(quotas, quota)
		}
	}
	if len(quotas) > mostPolicies {
		return nil, fmt.Errorf("%w: %d policies, want at most %d", ErrBadPolicy, len(quotas), mostPolicies)
	}
	return quotas, nil
}

// quotaOf is the zero Quota for a policy that is left out.
func quotaOf(policy string) (fairlimit.Quota, error) {
	parts := split(policy, ';')
	fields := parameters(parts[1:])
	if unit, other := fields["qu"]; other && strings.Trim(unit, `"`) != "requests" {
		return fairlimit.Quota{}, nil
	}
	name, text := "q", fields["q"]
	if _, named := fields[name]; !named {
		name, text = "the number", strings.TrimSpace(parts[0])
	}
	window, timed := fields["w"]
	permits, seconds := whole(text), whole(window)
	bad := func(name, text, want string) (fairlimit.Quota, error) {
		return fairlimit.Quota{}, fmt.Errorf("%w: %s is %#.40q, want %s, in %#.80q", ErrBadPolicy, name, text, want, policy)
	}
	switch {
	case permits == 0:
		return bad(name, text, "a whole number above 0")
	case timed && seconds == 0:
		return bad("w", window, "whole seconds above 0")
	case timed && permits > seconds*mostPerSecond:
		return bad(name, text, "at most a million a second")
	case !timed:
		return fairlimit.Quota{}, nil
	}
	return fairlimit.Quota{Permits: int(permits), Per: time.Duration(seconds) * time.Second}, nil
}

// whole reads digits. Any other text is 0, and so is more than fits an int32.
func whole(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return n
}
