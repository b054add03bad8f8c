package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
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
		frame, words, err := readCommand(from)
		if err != nil || !l.pass() {
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
		if _, err := l.server.Write(frame); err != nil {
			return
		}
	}
}

// replies passes on what the server says, to its end. If the client has gone,
// the server is still read.
func (l *link) replies() {
	from := bufio.NewReader(l.server)
	for {
		frame, err := readFrame(from)
		if err != nil || !l.linger() {
			return
		}
		fate := l.answered(frame)
		switch {
		case fate == nil:
			_, _ = l.client.Write(frame)
		case fate.how == Cut:
			return
		case fate.how == CutWithin:
			_, _ = l.client.Write(frame[:len(frame)/2])
			return
		}
	}
}

// answered takes the fate of the command that the frame answers off the list.
func (l *link) answered(frame []byte) *loss {
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

var errNoFrame = errors.New("redistest: not the Redis protocol")

// readFrame reads one whole command or reply, of protocol 2 or 3, and returns
// its bytes as they are.
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	frame = append(frame, line...)
	if err != nil {
		return frame, err
	}
	if len(line) < 3 {
		return frame, errNoFrame
	}
	kind, parts := line[0], 0
	switch kind {
	case '+', '-', ':', ',', '#', '_', '(':
		return frame, nil
	case '$', '=', '!', '*', '~', '%', '|', push:
		if parts, err = strconv.Atoi(string(line[1 : len(line)-2])); err != nil {
			return frame, errNoFrame
		}
	default:
		return frame, errNoFrame
	}
	switch kind {
	case '$', '=', '!':
		if parts < 0 {
			return frame, nil
		}
		body := make([]byte, parts+2)
		_, err = io.ReadFull(r, body)
		return append(frame, body...), err
	case '%':
		parts *= 2
	case '|': // and the reply that they belong to
		parts = parts*2 + 1
	}
	for range parts {
		if frame, err = appendFrame(frame, r); err != nil {
			return frame, err
		}
	}
	return frame, nil
}

// readCommand reads one command, as bytes and as words.
func readCommand(r *bufio.Reader) (frame []byte, words []string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return line, nil, err
	}
	if len(line) < 4 || line[0] != '*' {
		return line, nil, errNoFrame
	}
	count, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || count < 1 {
		return line, nil, errNoFrame
	}
	frame = line
	for range count {
		word, err := readFrame(r)
		frame = append(frame, word...)
		if err != nil {
			return frame, nil, err
		}
		if word[0] != '$' {
			return frame, nil, errNoFrame
		}
		head := 0
		for word[head] != '\n' {
			head++
		}
		words = append(words, string(word[head+1:len(word)-2]))
	}
	return frame, words, nil
}
