package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/testing/testpb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/grpclimit"
)

func TestACallOfEitherShapeTakesItsPermits(t *testing.T) {
	s := &service{}
	l := limiter(t, fairlimit.PerHour(10))
	costs := map[string]int{testpb.TestService_Ping_FullMethodName: 3}
	address := s.serve(t)
	priced := limited(t, address, &grpclimit.Interceptor{
		Limiter: l, Permits: func(method string) int { return costs[method] },
	})
	plain := limited(t, address, &grpclimit.Interceptor{Limiter: l})
	for _, call := range shapes {
		require.NoError(t, call(t.Context(), priced))
		require.NoError(t, call(t.Context(), plain))
	}
	assert.EqualValues(t, 4, s.calls.Load())
	assert.Equal(t, 10-3-0-1-1, state(t, l).Available)
}

func TestTheCallersOptionsStay(t *testing.T) {
	s := &service{answer: func(ctx context.Context) error {
		return grpc.SetTrailer(ctx, metadata.Pairs("mine", "1"))
	}}
	c := limited(t, s.serve(t), &grpclimit.Interceptor{Limiter: limiter(t, fairlimit.PerHour(5))})
	var trailer, untouched metadata.MD
	opts := []grpc.CallOption{grpc.Trailer(&trailer), grpc.Trailer(&untouched)}
	_, err := c.Ping(t.Context(), &testpb.PingRequest{}, opts[:1]...)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, trailer.Get("mine"))
	assert.Equal(t, grpc.Trailer(&untouched), opts[1], "room behind the options is not ours")
}

// refusing is a limiter that lets nobody go.
type refusing struct{ because error }

func (r refusing) Wait(context.Context) error { return r.because }

// reply is an error of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const loading = reply("LOADING Redis is loading the dataset in memory")

func TestACallThatIsRefusedHereHasAStatusAndIsNeverMade(t *testing.T) {
	s := &service{}
	address := s.serve(t)
	l := limiter(t, fairlimit.PerHour(5))
	tooLate := &fairlimit.RefusedError{}
	permits := func(string) int { return 6 }
	type limit = grpclimit.Interceptor
	for name, test := range map[string]struct {
		limit *limit
		want  error
		code  codes.Code
	}{
		"no limiter":          {&limit{}, fairlimit.ErrInvalidOption, codes.Internal},
		"a negative MaxPause": {&limit{Limiter: l, MaxPause: -1}, fairlimit.ErrInvalidOption, codes.Internal},
		"more than ever":      {&limit{Limiter: l, Permits: permits}, fairlimit.ErrExceedsQuota, codes.Internal},
		"too late":            {&limit{Limiter: refusing{tooLate}}, tooLate, codes.DeadlineExceeded},
		"cancelled":           {&limit{Limiter: refusing{context.Canceled}}, context.Canceled, codes.Canceled},
		"Redis loads":         {&limit{Limiter: refusing{loading}}, loading, codes.Unavailable},
		"Redis is away": {
			&limit{Limiter: refusing{fairlimit.ErrUnreachable}}, fairlimit.ErrUnreachable, codes.Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for shape, call := range shapes {
				err := call(t.Context(), limited(t, address, test.limit))
				assert.ErrorIs(t, err, test.want, shape)
				assert.Equal(t, test.code, status.Code(err), shape)
			}
		})
	}
	assert.Zero(t, s.calls.Load())
	assert.Equal(t, 5, state(t, l).Available)
}

func TestTheMiddlewareAsksTheLimiter(t *testing.T) {
	s := &service{}
	limit := grpclimit.Limit{Limiter: limiter(t, fairlimit.PerHour(2), fairlimit.WithMaxWait(time.Minute))}
	c := connect(t, s.serve(t, grpc.UnaryInterceptor(ratelimit.UnaryServerInterceptor(limit)),
		grpc.StreamInterceptor(ratelimit.StreamServerInterceptor(limit))))
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		for shape, call := range shapes {
			assert.Equal(t, want, status.Code(call(t.Context(), c)), shape)
		}
	}
	assert.EqualValues(t, 2, s.calls.Load())
	require.ErrorIs(t, grpclimit.Limit{}.Limit(t.Context()), fairlimit.ErrInvalidOption)
}
