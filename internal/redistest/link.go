package redistest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
)

// link is one connection, and the one that leads on from it to the server.
//
// Invariant: its fates, under mu, are those of the commands that have been
// passed on and not answered yet, in their order. A command's is there before
// the server can answer it.
type link struct {
	proxy  *Proxy
	client net.Conn
	gone   chan struct{} // closed when it is cut

	mu     sync.Mutex
	server net.Conn // nil until there is one
	cutOff bool
	fates  []*loss
}

func (l *link) run(server string) {
	defer l.proxy.forget(l)
	defer l.cut()
	if !l.pass() { // who cannot reach the server learns that like everything else
		return
	}
	conn, err := net.Dial("tcp", server)
	if err != nil || !l.join(conn) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		l.commands()
		if l.pass() {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	})
	both.Go(func() {
		l.replies()
		l.cut()
	})
	both.Wait()
}

// join makes conn the link's way on, unless it has been cut meanwhile.
func (l *link) join(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutOff {
		_ = conn.Close()
		return false
	}
	l.server = conn
	return true
}

// cut resets both connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cutOff {
		return
	}
	l.cutOff = true
	close(l.gone)
	for _, conn := range []net.Conn{l.client, l.server} {
		if conn != nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

// pass waits while the proxy is frozen and reports whether the link is still
// there.
func (l *link) pass() bool {
	for {
		l.proxy.mu.Lock()
		frozen := l.proxy.frozen
		l.proxy.mu.Unlock()
		if frozen == nil {
			select {
			case <-l.gone:
				return false
			default:
				return true
			}
		}
		select {
		case <-frozen:
		case <-l.gone:
			return false
		}
	}
}

// linger holds up a reply for as long as the proxy says and reports whether the
// link is still there.
func (l *link) linger() bool {
	l.proxy.mu.Lock()
	draw := l.proxy.delay
	l.proxy.mu.Unlock()
	if draw != nil {
		timer := time.NewTimer(draw())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
			return false
		}
	}
	return l.pass()
}

func (l *link) commands() {
	from := bufio.NewReader(l.client)
	for {
		frame, err := proto.Read(from)
		if err != nil || !l.pass() {
			return
		}
		words, err := proto.ReadStrings(frame)
		if err != nil || len(words) == 0 {
			return
		}
		fate := l.proxy.fate(words)
		if fate != nil && fate.how == Unsent {
			l.cut()
			return
		}
		l.mu.Lock()
		l.fates = append(l.fates, fate)
		l.mu.Unlock()
		if _, err := io.WriteString(l.server, frame); err != nil {
			return
		}
	}
}

// replies passes on what the server says, to its end. If the client has gone,
// the server is still read.
func (l *link) replies() {
	from := bufio.NewReader(l.server)
	for {
		frame, err := proto.Read(from)
		if err != nil || !l.linger() {
			return
		}
		fate := l.answered(frame)
		switch {
		case fate == nil:
			_, _ = io.WriteString(l.client, frame)
		case fate.how == Cut:
			return
		case fate.how == CutWithin:
			_, _ = io.WriteString(l.client, frame[:len(frame)/2])
			return
		}
	}
}

// answered takes the fate of the command that the frame answers off the list.
func (l *link) answered(frame string) *loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	if frame[0] == push || len(l.fates) == 0 {
		return nil
	}
	fate := l.fates[0]
	l.fates = l.fates[1:]
	return fate
}

// push is the first byte of what a server sends without having been asked.
const push = '>'
