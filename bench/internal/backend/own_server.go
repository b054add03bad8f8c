package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
)

// keeper runs a server until the keeper's standard input ends. It ends with
// this program, however the program ends.
const keeper = `"$0" "$@" </dev/null >/dev/null 2>&1 & read -r _; kill -9 $!; wait`

// kept is a redis-server process and its keeper.
type kept struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("there is no redis-server in PATH")

func ownServer(ctx context.Context) (*Backend, error) {
	b, err := Start(ctx)
	if errors.Is(err, ErrNoServer) {
		return nil, fmt.Errorf("%w, and %w to start one that is", ErrNotOurs, err)
	}
	return b, err
}

// Start starts a redis-server process on a free port of the loopback interface,
// without persistence, that ends with this program or before. If redis-server
// is not installed, the error matches ErrNoServer.
func Start(ctx context.Context) (*Backend, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoServer
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	server, err := keep(path, addr)
	if err != nil {
		return nil, err
	}
	client := observer(addr)
	b := &Backend{
		Name: "redis", Addr: addr, client: client,
		close: func() {
			_ = client.Close()
			server.end()
		},
		restart: func(ctx context.Context, away time.Duration) (err error) {
			server.end()
			_ = clock.Sleep(ctx, away)
			server, err = keep(path, addr)
			return err
		},
	}
	for began := time.Now(); client.Ping(ctx).Err() != nil; _ = clock.Sleep(ctx, 10*time.Millisecond) {
		if ctx.Err() != nil || time.Since(began) > patience {
			b.Close()
			return nil, fmt.Errorf("the redis-server at %s that was started for this does not answer", path)
		}
	}
	b.named(ctx)
	return b, nil
}

func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func keep(path, addr string) (*kept, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", keeper, path, "--bind", host, "--port", port, "--save", "", "--appendonly", "no")
	setApart(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a redis-server cannot be started: %w", err)
	}
	return &kept{cmd: cmd, stdin: stdin}, nil
}

func (k *kept) end() {
	if k == nil {
		return
	}
	_ = k.stdin.Close()
	_ = k.cmd.Wait()
}
