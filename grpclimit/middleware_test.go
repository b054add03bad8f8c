package grpclimit_test

import (
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/grpclimit"
)

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
