package enginetest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// line stands between a client and its servers and can break there.
type line struct{ state atomic.Int32 }

const (
	whole int32 = iota
	losing
	broken
)

// tap puts a line before all connections that the client makes from now on.
func tap(rdb redis.UniversalClient) *line {
	l := &line{}
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(l) })
	case *redis.Ring:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(l) })
	default:
		rdb.AddHook(l)
	}
	return l
}

// loseReply makes the next reply break its connection on arrival.
func (l *line) loseReply() { l.state.Store(losing) }

func (l *line) lost() bool { return l.state.Load() == broken }

func (l *line) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return tapped{conn, l}, nil
	}
}

func (l *line) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *line) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type tapped struct {
	net.Conn
	line *line
}

func (c tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.line.state.CompareAndSwap(losing, broken) {
		return 0, errors.Join(io.EOF, c.Close())
	}
	return n, err
}

// unreachable is a client that reaches nothing, and how often it has tried.
func unreachable() (*redis.Client, *atomic.Int64) {
	dials := new(atomic.Int64)
	return redis.NewClient(&redis.Options{
		Addr:          "127.0.0.1:1",
		DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, &net.OpError{Op: "dial", Err: errors.New("there is no server here")}
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), dials
}
