package grpclimit_test

import (
	"context"
	"io"
	"testing"
	"time"

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

func TestACallThatWouldComeTooLateIsNeverMade(t *testing.T) {
	s := &service{}
	l := limiter(t, fairlimit.PerHour(1))
	require.NoError(t, l.Wait(t.Context()))
	c := limited(t, s.serve(t), &grpclimit.Interceptor{Limiter: l})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for shape, call := range shapes(c) {
		err := call(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded, shape)
		var refused *fairlimit.RefusedError
		assert.ErrorAs(t, err, &refused, shape)
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), shape)
	}
	assert.Zero(t, s.calls())
	assert.Zero(t, state(t, l).Queued)
}

func TestACallOfAnyShapeTakesItsPermits(t *testing.T) {
	s := &service{}
	l := limiter(t, fairlimit.PerHour(10))
	costs := map[string]int{
		testpb.TestService_Ping_FullMethodName:             3,
		testpb.TestService_PingClientStream_FullMethodName: 2,
	}
	address := s.serve(t)
	priced := limited(t, address, &grpclimit.Interceptor{
		Limiter: l, Permits: func(method string) int { return costs[method] },
	})
	for shape, want := range map[string]int{"unary": 3, "client stream": 2, "server stream": 0} {
		before := state(t, l).Available
		if err := shapes(priced)[shape](t.Context()); err != io.EOF {
			require.NoError(t, err)
		}
		assert.Equal(t, want, before-state(t, l).Available, shape)
	}
	for shape, call := range shapes(limited(t, address, &grpclimit.Interceptor{Limiter: l})) {
		if err := call(t.Context()); err != io.EOF {
			assert.NoError(t, err, shape)
		}
	}
	assert.Equal(t, 3+4, s.calls())
	assert.Equal(t, 10-3-2-4, state(t, l).Available, "one for each shape")
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

// reply is an error of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const loading = reply("LOADING Redis is loading the dataset in memory")

func TestACallThatIsRefusedHereHasAStatus(t *testing.T) {
	s := &service{}
	address := s.serve(t)
	l := limiter(t, fairlimit.PerHour(5))
	says := func(err error) waiter { return func(context.Context) error { return err } }
	permits := func(n int) func(string) int { return func(string) int { return n } }
	type limit = grpclimit.Interceptor
	for name, test := range map[string]struct {
		limit *limit
		want  error
		code  codes.Code
	}{
		"no limiter":          {&limit{}, fairlimit.ErrInvalidOption, codes.Internal},
		"a negative MaxPause": {&limit{Limiter: l, MaxPause: -1}, fairlimit.ErrInvalidOption, codes.Internal},
		"more than ever":      {&limit{Limiter: l, Permits: permits(6)}, fairlimit.ErrExceedsQuota, codes.Internal},
		"cancelled":           {&limit{Limiter: says(context.Canceled)}, context.Canceled, codes.Canceled},
		"Redis loads":         {&limit{Limiter: says(loading)}, loading, codes.Unavailable},
		"Redis is away": {
			&limit{Limiter: says(fairlimit.ErrUnreachable)}, fairlimit.ErrUnreachable, codes.Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for shape, call := range shapes(limited(t, address, test.limit)) {
				err := call(t.Context())
				assert.ErrorIs(t, err, test.want, shape)
				assert.Equal(t, test.code, status.Code(err), shape)
			}
		})
	}
	assert.Zero(t, s.calls())
	assert.Equal(t, 5, state(t, l).Available)
}
