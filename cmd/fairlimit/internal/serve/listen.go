package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ListenUnix listens on a socket that only this user may open, from the moment at
// which it is there. A socket that nobody serves any more is taken over.
func ListenUnix(path string) (net.Listener, error) {
	path, err := filepath.Abs(path) // with an @ in front it would be no file, but open to all
	if err == nil {
		err = removeStale(path)
	}
	if err != nil {
		return nil, err
	}
	defer private()()
	return net.Listen("unix", path)
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(path)
	}
	return fmt.Errorf("%s: another server listens there", path) // one that is busy does not answer
}

// bound closes connections beyond what may be open, at once: if they waited,
// nobody would get in while idle ones are kept. Those that wait apart are counted
// as requests that wait.
func (s *Server) bound(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		most := min(int64(s.MostWaiting), max(0, s.crowd)) + int64(s.connections)
		if s.open.Add(1) > most {
			_ = conn.Close()
			s.tell(fmt.Errorf("%w: %d connections are open", errTooMany, most))
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}
