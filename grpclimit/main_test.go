package grpclimit_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/testing/testpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fairlimit/fairlimit/grpclimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	limiter = limitertest.Alone
	state   = limitertest.Status
)

type pausing = limitertest.Pausing

// service counts the calls that reach it and answers each as the test says.
type service struct {
	testpb.UnimplementedTestServiceServer
	answer func(ctx context.Context) error // nil answers yes
	calls  atomic.Int64
}

func (s *service) reply(ctx context.Context) error {
	s.calls.Add(1)
	if s.answer == nil {
		return nil
	}
	return s.answer(ctx)
}

func (s *service) Ping(ctx context.Context, _ *testpb.PingRequest) (*testpb.PingResponse, error) {
	return &testpb.PingResponse{}, s.reply(ctx)
}

func (s *service) PingStream(stream testpb.TestService_PingStreamServer) error {
	if err := s.reply(stream.Context()); err != nil {
		return err
	}
	return stream.Send(&testpb.PingStreamResponse{})
}

// serve starts the service on a port of its own. It ends with the test.
func (s *service) serve(t *testing.T, opts ...grpc.ServerOption) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(opts...)
	testpb.RegisterTestServiceServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return listener.Addr().String()
}

func connect(t *testing.T, address string, opts ...grpc.DialOption) testpb.TestServiceClient {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+address, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

// limited connects through the interceptor.
func limited(t *testing.T, address string, limit *grpclimit.Interceptor) testpb.TestServiceClient {
	t.Helper()
	return connect(t, address,
		grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
}

// shapes are the two shapes that a call can have.
var shapes = map[string]func(ctx context.Context, c testpb.TestServiceClient) error{
	"unary": func(ctx context.Context, c testpb.TestServiceClient) error {
		_, err := c.Ping(ctx, &testpb.PingRequest{})
		return err
	},
	"stream": func(ctx context.Context, c testpb.TestServiceClient) error {
		stream, err := c.PingStream(ctx)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	},
}
