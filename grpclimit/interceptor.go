package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fairlimit/fairlimit/internal/gate"
)

// DefaultMaxPause is the longest pause that an answer can cause, unless
// [Interceptor.MaxPause] says otherwise.
const DefaultMaxPause = gate.DefaultMaxPause

// Waiter is what an [Interceptor] needs of a limiter. A [fairlimit.Limiter] is
// one, and so is a *rate.Limiter of golang.org/x/time/rate.
//
// Two more methods are used if the limiter has them. Without the first, a call
// for more than one permit is an error. Without the second, the Interceptor
// holds back its own calls.
//
//	WaitN(ctx context.Context, n int) error
//	Pause(ctx context.Context, d time.Duration) error // holds back everybody
type Waiter interface {
	Wait(ctx context.Context) error
}

// Interceptor lets calls wait for their turn. If the server says how long it
// wants to be left alone, the Interceptor pauses the limiter for so long. Its
// methods Unary and Stream are what [grpc.WithChainUnaryInterceptor] and
// [grpc.WithChainStreamInterceptor] take.
//
// Only Limiter is required. Do not change the fields after the first call, and
// do not copy an Interceptor. Any number of goroutines and connections may use
// it. It holds no goroutine or timer while idle.
type Interceptor struct {
	// Limiter is asked before each call, under the call's ctx. If the ctx ends,
	// or if the turn would come after its deadline, nothing is sent. The error
	// is the limiter's, with a status: DEADLINE_EXCEEDED, CANCELLED,
	// UNAVAILABLE for a Redis that cannot be asked, and INTERNAL for anything
	// else.
	Limiter Waiter

	// Permits is what a call of the method costs, as in "/package.Service/Do".
	// A stream costs once, however many messages it has. Nil means 1 for every
	// method. A call for 0 permits goes at once, even during a pause. If the
	// number is negative, the error matches [fairlimit.ErrInvalidPermits]. If
	// it is more than 1 and the limiter has no WaitN, the error matches
	// [fairlimit.ErrUnsupported].
	Permits func(method string) int

	// MaxPause bounds each pause. 0 means [DefaultMaxPause]. If it is negative or
	// less than a microsecond, the error matches [fairlimit.ErrInvalidOption].
	MaxPause time.Duration

	// OnError is called if the limiter could not pause. The call ends as usual,
	// and this Interceptor holds back its own calls instead. OnError may run
	// after the call has returned, and several times at once. It may be nil.
	OnError func(error)

	gate gate.Gate
}

var (
	_ grpc.UnaryClientInterceptor  = (*Interceptor)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Interceptor)(nil).Stream
)

// Unary waits for the call's turn and makes it, once. If the server refuses,
// the limiter is paused before Unary returns. That takes at most 100 ms. If
// Redis is slower, it records the pause later.
func (i *Interceptor) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if err := i.wait(ctx, method); err != nil {
		return err
	}
	var header, trailer metadata.MD
	err := invoke(ctx, method, req, reply, cc, with(opts, grpc.Header(&header), grpc.Trailer(&trailer))...)
	i.heed(ctx, err, trailer, header)
	return err
}

// Stream waits for the stream's turn and opens it, once. If the server refuses,
// the limiter is paused before the stream's user hears of it, as for Unary. A
// stream takes one turn, and its messages take none.
func (i *Interceptor) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := i.wait(ctx, method); err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		i.heed(ctx, err)
		return nil, err
	}
	return &watched{ClientStream: stream, ctx: ctx, interceptor: i}, nil
}

// watched is a stream whose end is looked at.
type watched struct {
	grpc.ClientStream
	ctx         context.Context // the caller's: the stream's own ends with it
	interceptor *Interceptor
	ended       bool // its status was looked at
}

// RecvMsg is where a stream's status arrives. It never runs twice at once. A
// stream that has ended returns its status again each time.
func (w *watched) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if err != nil && !w.ended {
		w.ended = true
		header, _ := w.Header()
		w.interceptor.heed(w.ctx, err, w.Trailer(), header)
	}
	return err
}

func (i *Interceptor) wait(ctx context.Context, method string) error {
	if err := gate.CheckMaxPause(i.MaxPause); err != nil {
		return unsent(err)
	}
	permits := 1
	if i.Permits != nil {
		permits = i.Permits(method)
	}
	if err := i.gate.Enter(ctx, i.Limiter, permits); err != nil {
		return unsent(err)
	}
	return nil
}

// heed pauses the limiter if the answer asks for it.
func (i *Interceptor) heed(ctx context.Context, err error, metadata ...metadata.MD) {
	if pause, ok := retryAfter(err, metadata...); ok && pause > 0 {
		i.gate.Shut(ctx, i.Limiter, gate.Bounded(pause, i.MaxPause), i.OnError)
	}
}

// with appends to a copy: the caller's slice may have room that others use.
func with(opts []grpc.CallOption, more ...grpc.CallOption) []grpc.CallOption {
	return append(opts[:len(opts):len(opts)], more...)
}
