package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
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

// bounded is a listener that closes connections beyond its room at once: one that
// let them wait would let nobody in while idle ones are kept.
type bounded struct {
	net.Listener
	room    int64
	open    atomic.Int64
	crowded func() // is told of each that is closed
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.room {
			return &admitted{Conn: conn, leave: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = conn.Close()
		b.crowded()
	}
}

// admitted is a connection that leaves room when it is closed.
type admitted struct {
	net.Conn
	leave func()
}

func (a *admitted) Close() error {
	a.leave()
	return a.Conn.Close()
}

// CloseWrite is what net/http looks for: a client can then read an answer to a
// request that was not read to its end.
func (a *admitted) CloseWrite() error {
	if half, can := a.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}
