package llmtest

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// Pipe starts a server that no socket leads to, and returns what sends to it. It
// works in a [testing/synctest] bubble.
func (u *Upstream) Pipe(t testing.TB) http.RoundTripper {
	open, end := context.WithCancel(context.Background())
	l := &listener{make(chan net.Conn), open, end}
	server := &http.Server{Handler: u}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return transport
}

// listener accepts connections within a process.
type listener struct {
	conns chan net.Conn
	open  context.Context
	end   context.CancelFunc
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.open.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.end()
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
