// Package pipe has HTTP servers for tests in [testing/synctest] bubbles.
package pipe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Serve starts a server that no socket leads to, and returns what sends to it,
// whatever the URL. It ends with the test.
func Serve(t testing.TB, handler http.Handler) http.RoundTripper {
	open, end := context.WithCancel(context.Background())
	l := &listener{make(chan net.Conn), open, end}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
	server.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
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

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }
