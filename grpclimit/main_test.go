package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
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

type (
	pausing = limitertest.Pausing
	waiter  = limitertest.Waiter
)

// service counts the calls that reach it and answers each as the test says.
type service struct {
	testpb.UnimplementedTestServiceServer
	answer func(ctx context.Context) error // of a stream, or of a call; nil answers yes

	mu      sync.Mutex
	reached int
}

func (s *service) reply(ctx context.Context) error {
	s.mu.Lock()
	s.reached++
	s.mu.Unlock()
	if s.answer == nil {
		return nil
	}
	return s.answer(ctx)
}

func (s *service) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

func (s *service) Ping(ctx context.Context, _ *testpb.PingRequest) (*testpb.PingResponse, error) {
	return &testpb.PingResponse{}, s.reply(ctx)
}

func (s *service) PingList(_ *testpb.PingListRequest, stream testpb.TestService_PingListServer) error {
	if err := stream.Send(&testpb.PingListResponse{}); err != nil {
		return err
	}
	return s.reply(stream.Context())
}

func (s *service) PingClientStream(stream testpb.TestService_PingClientStreamServer) error {
	if err := s.reply(stream.Context()); err != nil {
		return err
	}
	return stream.SendAndClose(&testpb.PingClientStreamResponse{})
}

func (s *service) PingStream(stream testpb.TestService_PingStreamServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return s.reply(stream.Context())
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

// shapes are the four shapes that a call can have, each made to its end.
func shapes(c testpb.TestServiceClient) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"unary": func(ctx context.Context) error {
			_, err := c.Ping(ctx, &testpb.PingRequest{})
			return err
		},
		"server stream": func(ctx context.Context) error {
			stream, err := c.PingList(ctx, &testpb.PingListRequest{})
			if err != nil {
				return err
			}
			for err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"client stream": func(ctx context.Context) error {
			stream, err := c.PingClientStream(ctx)
			if err != nil {
				return err
			}
			_, err = stream.CloseAndRecv()
			return err
		},
		"both": func(ctx context.Context) error {
			stream, err := c.PingStream(ctx)
			if err != nil {
				return err
			}
			// io.EOF says that the stream is over. Recv says why.
			if err := stream.Send(&testpb.PingStreamRequest{}); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
}
