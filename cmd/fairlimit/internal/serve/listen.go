package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
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
