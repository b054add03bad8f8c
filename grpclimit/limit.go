package grpclimit

import (
	"context"

	"github.com/fairlimit/fairlimit/internal/gate"
)

// Limit is a limiter for the interceptors of package ratelimit of
// github.com/grpc-ecosystem/go-grpc-middleware/v2, on either side of a call. If
// Limit refuses a call, they answer it with RESOURCE_EXHAUSTED.
//
// On a server, each call waits for its turn as long as the client's deadline
// allows. Give the limiter [fairlimit.WithMaxWait]. Otherwise calls without a
// deadline pile up in the server. On a client an [Interceptor] is better,
// because it also hears what the server answers.
type Limit struct {
	Limiter Waiter // required
}

// Limit returns nil when it is the caller's turn, and the limiter's error
// otherwise.
func (l Limit) Limit(ctx context.Context) error {
	return new(gate.Gate).Enter(ctx, l.Limiter, 1)
}
