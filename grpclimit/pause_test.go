package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/testing/testpb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/grpclimit"
)

// refusal is a status with RetryInfo.
func refusal(t *testing.T, code codes.Code, after time.Duration) error {
	t.Helper()
	s, err := status.New(code, "slow down").WithDetails(
		&errdetails.ErrorInfo{Reason: "QUOTA"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(after)},
	)
	require.NoError(t, err)
	return s.Err()
}

func TestARefusalPausesTheLimiter(t *testing.T) {
	type answer = func(t *testing.T, ctx context.Context) error
	const pushback, brief = "grpc-retry-pushback-ms", 1500 * time.Millisecond
	info := func(code codes.Code, after time.Duration) answer {
		return func(t *testing.T, _ context.Context) error { return refusal(t, code, after) }
	}
	trailer := func(code codes.Code, ms ...string) answer {
		return func(t *testing.T, ctx context.Context) error {
			for _, value := range ms {
				assert.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs(pushback, value)))
			}
			return status.Error(code, "slow down")
		}
	}
	header := func(t *testing.T, ctx context.Context) error {
		assert.NoError(t, grpc.SetHeader(ctx, metadata.Pairs(pushback, "40")))
		return status.Error(codes.ResourceExhausted, "slow down")
	}
	empty := func(t *testing.T, _ context.Context) error {
		s, err := status.New(codes.Unavailable, "slow down").WithDetails(&errdetails.RetryInfo{})
		require.NoError(t, err)
		return s.Err()
	}
	for name, test := range map[string]struct {
		answer answer
		want   time.Duration
	}{
		"RetryInfo":            {info(codes.ResourceExhausted, brief), brief},
		"RetryInfo, away":      {info(codes.Unavailable, brief), brief},
		"RetryInfo, aborted":   {info(codes.Aborted, brief), 0},
		"RetryInfo of 0":       {info(codes.ResourceExhausted, 0), 0},
		"RetryInfo below 0":    {info(codes.ResourceExhausted, -time.Second), 0},
		"RetryInfo, absurd":    {info(codes.ResourceExhausted, 250*365*24*time.Hour), 15 * time.Minute},
		"RetryInfo, empty":     {empty, 0},
		"pushback":             {trailer(codes.ResourceExhausted, "1500"), brief},
		"pushback, away":       {trailer(codes.Unavailable, "20"), 20 * time.Millisecond},
		"pushback, other":      {trailer(codes.Internal, "20"), 0},
		"pushback below 0":     {trailer(codes.Unavailable, "-1"), 0},
		"pushback, absurd":     {trailer(codes.Unavailable, "9223372036854775807"), 15 * time.Minute},
		"pushback, beyond":     {trailer(codes.Unavailable, "99999999999999999999"), 0},
		"pushback, twice":      {trailer(codes.Unavailable, "soon", "30"), 30 * time.Millisecond},
		"pushback in a header": {header, 40 * time.Millisecond},
		"neither":              {trailer(codes.ResourceExhausted), 0},
		"a yes":                {trailer(codes.OK, "1500"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{answer: func(ctx context.Context) error { return test.answer(t, ctx) }}
			address := s.serve(t)
			for shape, call := range shapes {
				l := &pausing{Queue: limiter(t, fairlimit.PerHour(5))}
				before := s.calls.Load()
				_ = call(t.Context(), limited(t, address, &grpclimit.Interceptor{Limiter: l}))
				assert.Equal(t, test.want, append(l.Pauses(), 0)[0], shape)
				assert.Equal(t, before+1, s.calls.Load(), "it is not made again")
			}
		})
	}
}

// A stream that was refused says so each time that it is read.
func TestARefusalOfAStreamPausesOnce(t *testing.T) {
	s := &service{answer: func(context.Context) error { return refusal(t, codes.ResourceExhausted, time.Minute) }}
	l := &pausing{Queue: limiter(t, fairlimit.PerHour(20))}
	stream, err := limited(t, s.serve(t), &grpclimit.Interceptor{Limiter: l}).PingStream(t.Context())
	require.NoError(t, err)
	for range 3 {
		_, err := stream.Recv()
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
	assert.Equal(t, []time.Duration{time.Minute}, l.Pauses())
}

func TestMaxPauseBoundsAPauseAndOnErrorHearsOfOneThatFails(t *testing.T) {
	s := &service{answer: func(context.Context) error { return refusal(t, codes.Unavailable, 2*time.Hour) }}
	l := &pausing{Queue: limiter(t, fairlimit.PerHour(5)), Err: fairlimit.ErrUnreachable}
	told := make(chan error, 1)
	c := limited(t, s.serve(t), &grpclimit.Interceptor{
		Limiter: l, MaxPause: time.Hour, OnError: func(err error) { told <- err },
	})
	_, err := c.Ping(t.Context(), &testpb.PingRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "the call ends as it would have")
	require.ErrorIs(t, <-told, fairlimit.ErrUnreachable)
	assert.Equal(t, []time.Duration{time.Hour}, l.Pauses())
}
