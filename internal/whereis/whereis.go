// Package whereis says in an error which Redis gave no answer.
package whereis

import (
	"context"
	"crypto/tls"
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
	if !lacksAnswer(err) {
		return err
	}
	var hints []string
	text, secure := address(rdb)
	if text != "" && !strings.Contains(err.Error(), text) {
		hints = append(hints, "Redis at "+text)
	}
	if hint := hint(err, secure); hint != "" && !answered {
		hints = append(hints, hint)
	}
	if len(hints) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(hints, "; "))
}

// hint is what may be wrong with a port.
func hint(err error, secure bool) string {
	switch {
	case IsHTTP(err):
		return "that is an HTTP server, not Redis"
	case !secure && (errors.Is(err, io.EOF) || strings.HasSuffix(err.Error(), ": EOF")):
		return "if that is a TLS port, use rediss:// or TLSConfig"
	case secure && (IsPlain(err) || errors.Is(err, context.DeadlineExceeded) || !wasRefused(err)):
		return "if that port is without TLS, use redis:// or no TLSConfig"
	}
	return ""
}

// IsHTTP reports whether an error is that of a reply as a web server gives it: it
// begins with HTTP/, or with < if the server takes the question for one of
// HTTP/0.9. Go-redis quotes it.
func IsHTTP(err error) bool {
	if err == nil || errors.As(err, new(redis.Error)) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "redis: ") &&
		(strings.Contains(text, `"HTTP/`) || strings.Contains(text, `invalid reply: "<`))
}

// IsPlain reports whether a TLS handshake was answered in plain text.
func IsPlain(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) && strings.HasPrefix(header.Msg, "first record ")
}

// lacksAnswer reports whether an error is about the way to Redis. If the
// caller's ctx has ended it is about that, unless the error also says how Redis
// failed meanwhile.
func lacksAnswer(err error) bool {
	switch {
	case errors.As(err, new(redis.Error)):
		return false
	case errors.Is(err, engine.ErrUnreachable), errors.Is(err, io.EOF), errors.Is(err, timeout.ErrOverdue),
		errors.As(err, new(*net.OpError)), IsHTTP(err), IsPlain(err):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.Is(err, engine.ErrOutcomeUnknown) || errors.As(err, new(net.Error))
}

// wasRefused reports whether a connection was refused or ended. Else it timed out.
func wasRefused(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, engine.ErrUnreachable)
}

// address is where a client looks for Redis, "" if it does not tell, and whether
// it does so over TLS.
func address(rdb redis.UniversalClient) (text string, secure bool) {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Addr == "FailoverClient" { // its Sentinels say
			return "", o.TLSConfig != nil
		}
		return o.Addr, o.TLSConfig != nil
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ","), c.Options().TLSConfig != nil
	case *redis.Ring:
		return strings.Join(slices.Sorted(maps.Values(c.Options().Addrs)), ","), c.Options().TLSConfig != nil
	}
	return "", false
}
