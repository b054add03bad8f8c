package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/grpclimit"
)

func TestAnAttemptOfARetryAboveTakesATurn(t *testing.T) {
	s := &service{answer: func(context.Context) error { return status.Error(codes.Unavailable, "not now") }}
	l := limiter(t, fairlimit.PerHour(10))
	limit := &grpclimit.Interceptor{Limiter: l}
	backoff := retry.WithBackoff(retry.BackoffLinear(time.Millisecond))
	again := retry.UnaryClientInterceptor(retry.WithMax(3), backoff)
	c := connect(t, s.serve(t), grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(again, limit.Unary))
	require.Error(t, shapes(c)["unary"](t.Context()))
	assert.Equal(t, 3, s.calls())
	assert.Equal(t, 7, state(t, l).Available)
}

func TestTheMiddlewareAsksTheLimiter(t *testing.T) {
	s := &service{}
	l := limiter(t, fairlimit.PerHour(2), fairlimit.WithMaxWait(time.Minute))
	limit := grpclimit.Limit{Limiter: l}
	c := connect(t, s.serve(t, grpc.UnaryInterceptor(ratelimit.UnaryServerInterceptor(limit)),
		grpc.StreamInterceptor(ratelimit.StreamServerInterceptor(limit))))
	require.NoError(t, shapes(c)["unary"](t.Context()))
	require.NoError(t, shapes(c)["client stream"](t.Context()))
	for shape, call := range shapes(c) {
		assert.Equal(t, codes.ResourceExhausted, status.Code(call(t.Context())), shape)
	}
	assert.Equal(t, 2, s.calls())
	assert.Zero(t, state(t, l).Queued)
}

func TestALimitWithoutALimiterIsAnError(t *testing.T) {
	require.ErrorIs(t, grpclimit.Limit{}.Limit(t.Context()), fairlimit.ErrInvalidOption)
}
