// Package whereis says in an error which Redis gave no answer.
package whereis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// Of adds to an error of a question without an answer where Redis was looked
// for, and what may be wrong. Other errors stay as they are. Answered is whether
// this Redis has answered before: then it is the right port.
func Of(rdb redis.UniversalClient, err error, answered bool) error {
	text, secure := address(rdb)
	if text == "" || !lacksAnswer(err) {
		return err
	}
	var hints []string
	if !strings.Contains(err.Error(), text) {
		hints = append(hints, "Redis at "+text)
	}
	switch {
	case answered:
	case strings.Contains(err.Error(), `"HTTP/`): // a reply that go-redis quotes
		hints = append(hints, "that is an HTTP server, not Redis")
	case !secure && errors.Is(err, io.EOF):
		hints = append(hints, "if that is a TLS port, use rediss:// or TLSConfig")
	case secure && timedOut(err):
		hints = append(hints, "if that port is without TLS, use redis:// or no TLSConfig")
	}
	if len(hints) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(hints, "; "))
}

// lacksAnswer reports whether an error is about the way to Redis. If the
// caller's ctx has ended it is about that, unless the error also says how Redis
// failed meanwhile.
func lacksAnswer(err error) bool {
	switch {
	case errors.As(err, new(redis.Error)):
		return false
	case errors.Is(err, engine.ErrUnreachable), errors.Is(err, io.EOF), errors.Is(err, timeout.ErrOverdue),
		errors.As(err, new(*net.OpError)):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.Is(err, engine.ErrOutcomeUnknown) || errors.As(err, new(net.Error))
}

// timedOut is so for whatever is not told to be anything else.
func timedOut(err error) bool {
	return !errors.Is(err, io.EOF) && !errors.Is(err, engine.ErrUnreachable) &&
		(errors.Is(err, engine.ErrOutcomeUnknown) || errors.As(err, new(net.Error)))
}

// address is where a client looks for Redis, "" if it does not tell, and whether
// it does so over TLS.
func address(rdb redis.UniversalClient) (text string, secure bool) {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Addr == "FailoverClient" { // its Sentinels say
			return "", false
		}
		return o.Addr, o.TLSConfig != nil
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ","), c.Options().TLSConfig != nil
	case *redis.Ring:
		return strings.Join(slices.Sorted(maps.Values(c.Options().Addrs)), ","), c.Options().TLSConfig != nil
	}
	return "", false
}
