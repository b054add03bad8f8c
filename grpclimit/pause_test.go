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

// refusal is a status with details, of which RetryInfo may be one.
func refusal(t *testing.T, code codes.Code, info *errdetails.RetryInfo) error {
	t.Helper()
	s := status.New(code, "slow down")
	if info != nil {
		detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: "QUOTA"}, info)
		require.NoError(t, err)
		s = detailed
	}
	return s.Err()
}

func after(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

func TestARefusalPausesTheLimiter(t *testing.T) {
	const (
		exhausted, away = codes.ResourceExhausted, codes.Unavailable
		none, brief     = 0, 1500 * time.Millisecond
	)
	pushback := func(values ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": values} }
	for name, test := range map[string]struct {
		code     codes.Code
		info     *errdetails.RetryInfo
		pushback metadata.MD
		want     time.Duration
	}{
		"RetryInfo":          {exhausted, after(brief), nil, brief},
		"RetryInfo, away":    {away, after(brief), nil, brief},
		"RetryInfo, aborted": {codes.Aborted, after(brief), nil, none},
		"RetryInfo of 0":     {exhausted, after(0), nil, none},
		"RetryInfo below 0":  {exhausted, after(-time.Second), nil, none},
		"RetryInfo, absurd":  {exhausted, after(250 * 365 * 24 * time.Hour), nil, 15 * time.Minute},
		"RetryInfo, empty":   {away, &errdetails.RetryInfo{}, nil, none},
		"pushback":           {exhausted, nil, pushback("1500"), brief},
		"pushback, away":     {away, nil, pushback("1500"), brief},
		"pushback, other":    {codes.Internal, nil, pushback("20"), none},
		"pushback below 0":   {away, nil, pushback("-1"), none},
		"pushback, absurd":   {away, nil, pushback("9223372036854775807"), 15 * time.Minute},
		"pushback, beyond":   {away, nil, pushback("99999999999999999999"), none},
		"pushback, twice":    {away, nil, pushback("soon", "1500"), brief},
		"neither":            {exhausted, nil, nil, none},
		"a yes":              {codes.OK, nil, pushback("1500"), none},
	} {
		for place, set := range map[string]func(context.Context, metadata.MD) error{
			"trailer": grpc.SetTrailer, "header": grpc.SetHeader,
		} {
			t.Run(name+" in a "+place, func(t *testing.T) {
				s := &service{answer: func(ctx context.Context) error {
					assert.NoError(t, set(ctx, test.pushback))
					return refusal(t, test.code, test.info)
				}}
				address := s.serve(t)
				for shape, call := range shapes {
					l := &pausing{Queue: limiter(t, fairlimit.PerHour(5))}
					before := s.calls.Load()
					_ = call(t.Context(), limited(t, address, &grpclimit.Interceptor{Limiter: l}))
					assert.Equal(t, test.want, append(l.Pauses(), none)[0], shape)
					assert.Equal(t, before+1, s.calls.Load(), "it is not made again")
				}
			})
		}
	}
}

// A stream that was refused says so each time that it is read.
func TestARefusalOfAStreamPausesOnce(t *testing.T) {
	s := &service{answer: func(context.Context) error { return refusal(t, codes.ResourceExhausted, after(time.Minute)) }}
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
	s := &service{answer: func(context.Context) error { return refusal(t, codes.Unavailable, after(2*time.Hour)) }}
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
