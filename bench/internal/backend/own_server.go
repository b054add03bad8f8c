package backend

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("there is no redis-server in PATH")

func ownServer(ctx context.Context) (*Backend, error) {
	b, err := Start(ctx)
	if errors.Is(err, ErrNoServer) {
		return nil, fmt.Errorf("%w, and %w to start one that is", ErrNotOurs, err)
	}
	return b, err
}

// Installed reports whether there is a redis-server to start.
// FAIRLIMIT_REDIS_SERVER names another program.
func Installed() bool {
	_, err := exec.LookPath(redistest.ServerProgram())
	return err == nil
}

// Start starts a redis-server process on a free port of the loopback interface,
// without persistence, that ends with this program or before. If redis-server
// is not installed, the error matches ErrNoServer.
func Start(ctx context.Context) (*Backend, error) {
	if !Installed() {
		return nil, ErrNoServer
	}
	on := New(ctx)
	var server *redistest.Server
	if err := Attempt(func() { server = redistest.StartServer(on) }); err != nil {
		return nil, fmt.Errorf("a redis-server cannot be started: %w", err)
	}
	b := &Backend{
		Name: "redis", Addr: server.Addr(), client: server.Client(), close: on.End,
		restart: func(ctx context.Context, away time.Duration) error {
			return Attempt(func() {
				server.Kill()
				_ = clock.Sleep(ctx, away)
				server.Restart()
			})
		},
	}
	b.named(ctx)
	return b, nil
}
