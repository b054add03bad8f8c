package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// crowd is how many requests wait before further ones wait apart. Package
// net/http holds some 20 KB for a connection whose handler waits: that is too
// much for thousands of them. Those that wait apart take half of that. Their
// connections are closed after the answer, which costs little after a wait.
const crowd = 256

// errGone is why a wait apart ends when its client has gone.
var errGone = errors.New("the client has gone")

// waitApart takes the connection over and answers when the turn has come.
func (s *Server) waitApart(w http.ResponseWriter, a asked, timeout time.Duration) error {
	header := w.Header().Clone()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.leave()
		return err
	}
	s.apart.Add(1) // before the handler returns: the server is not done yet
	go s.waitOn(conn, header, a, timeout)
	return nil
}

func (s *Server) waitOn(conn net.Conn, header http.Header, a asked, timeout time.Duration) {
	defer s.apart.Done()
	defer conn.Close()
	ctx, leave := context.WithCancelCause(s.base)
	defer leave(nil)
	go func() {
		untilGone(conn)
		leave(errGone)
	}()
	told := &told{header: header}
	err := s.wait(ctx, told, a, timeout)
	if err != nil {
		s.failFor(ctx, told, err)
	}
	s.answers.count(told.status)
	if told.status != statusGone {
		told.header.Set("Connection", "close")
		told.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		told.send(conn)
	}
}

// untilGone returns when the client has closed the connection. Whatever it still
// sends is dropped. A copy to io.Discard would hold 8 KB.
func untilGone(conn net.Conn) {
	for text := make([]byte, 16); ; {
		if _, err := conn.Read(text); err != nil {
			return
		}
	}
}

// told is an answer that is sent by hand.
type told struct {
	header http.Header
	status int
	body   []byte
}

func (t *told) Header() http.Header { return t.header }

func (t *told) WriteHeader(status int) { t.status = status }

func (t *told) Write(text []byte) (int, error) {
	t.body = append(t.body, text...)
	return len(text), nil
}

func (t *told) send(to net.Conn) {
	head := "HTTP/1.1 " + strconv.Itoa(t.status) + " " + http.StatusText(t.status) + "\r\n"
	if _, err := io.WriteString(to, head); err != nil {
		return
	}
	if t.header.Write(to) == nil {
		_, _ = to.Write(append([]byte("\r\n"), t.body...))
	}
}
