package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/grpclimit"
)

func TestAnAttemptOfARetryAboveTakesATurn(t *testing.T) {
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := &service{answer: func(context.Context) error { return status.Error(codes.Unavailable, "not now") }}
		l := limiter(t, rdb, fairlimit.PerHour(10))
		limit := &grpclimit.Interceptor{Limiter: l}
		backoff := retry.WithBackoff(retry.BackoffLinear(time.Millisecond))
		again := retry.UnaryClientInterceptor(retry.WithMax(3), backoff)
		c := connect(t, s.serve(t), grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(again, limit.Unary))
		require.Error(t, shapes(c)["unary"](t.Context()))
		assert.Equal(t, 3, s.calls())
		assert.Equal(t, 7, state(t, l).Available)
	})
}

// TestAnAttemptOfAServiceConfigTakesNone shows why to switch them off.
func TestAnAttemptOfAServiceConfigTakesNone(t *testing.T) {
	const config = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}}]}`
	onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, test := range []struct {
			opts []grpc.DialOption
			want int
		}{
			{nil, 3},
			{[]grpc.DialOption{grpc.WithDisableRetry()}, 1},
		} {
			s := &service{answer: func(context.Context) error { return status.Error(codes.Unavailable, "not now") }}
			l := limiter(t, rdb, fairlimit.PerHour(10))
			limit := &grpclimit.Interceptor{Limiter: l}
			opts := append(test.opts,
				grpc.WithDefaultServiceConfig(config), grpc.WithChainUnaryInterceptor(limit.Unary))
			require.Error(t, shapes(connect(t, s.serve(t), opts...))["unary"](t.Context()))
			assert.Equal(t, test.want, s.calls())
			assert.Equal(t, 9, state(t, l).Available)
		}
	})
}

func TestTheMiddlewareAsksTheLimiter(t *testing.T) {
	type call = func(ctx context.Context, shape string) error
	for side, build := range map[string]func(t *testing.T, s *service, l ratelimit.Limiter) call{
		"server": func(t *testing.T, s *service, l ratelimit.Limiter) call {
			c := connect(t, s.serve(t, grpc.UnaryInterceptor(ratelimit.UnaryServerInterceptor(l)),
				grpc.StreamInterceptor(ratelimit.StreamServerInterceptor(l))))
			return func(ctx context.Context, shape string) error { return shapes(c)[shape](ctx) }
		},
		"client": func(t *testing.T, s *service, l ratelimit.Limiter) call {
			c := connect(t, s.serve(t), grpc.WithUnaryInterceptor(ratelimit.UnaryClientInterceptor(l)),
				grpc.WithStreamInterceptor(ratelimit.StreamClientInterceptor(l)))
			return func(ctx context.Context, shape string) error { return shapes(c)[shape](ctx) }
		},
	} {
		t.Run(side, func(t *testing.T) {
			onEach(t, func(t *testing.T, rdb redis.UniversalClient) {
				s := &service{}
				l := limiter(t, rdb, fairlimit.PerHour(2), fairlimit.WithMaxWait(time.Minute))
				call := build(t, s, grpclimit.Limit{Limiter: l})
				require.NoError(t, call(t.Context(), "unary"))
				require.NoError(t, call(t.Context(), "client stream"))
				for shape := range shapes(nil) {
					assert.Equal(t, codes.ResourceExhausted, status.Code(call(t.Context(), shape)), shape)
				}
				assert.Equal(t, 2, s.calls())
				assert.Zero(t, state(t, l).Queued)
			})
		})
	}
}

func TestALimitWithoutALimiterIsAnError(t *testing.T) {
	require.ErrorIs(t, grpclimit.Limit{}.Limit(t.Context()), fairlimit.ErrInvalidOption)
}
