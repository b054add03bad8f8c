package serve

import (
	"errors"
	"io/fs"
	"net"
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
