package serve

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
)

// ListenUnix listens on a socket that only this user may open, from the moment at
// which it is there. A socket that nobody serves any more is taken over.
func ListenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
	defer private()()
	return net.Listen("unix", path)
}

// bound closes connections beyond what may be open, at once: if they waited,
// nobody would get in while idle ones are kept.
func (s *Server) bound(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > s.MostWaiting+spareConnections {
			_ = conn.Close()
		}
	case http.StateClosed:
		s.open.Add(-1)
	}
}
