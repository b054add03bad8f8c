package backend

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/internal/clock"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("there is no redis-server in PATH")

// Own returns a server of the same kind that is ours to restart: it loses what
// it holds, as any Redis without persistence. The embedded one is. In place of
// one that was given, it is a redis-server process. If redis-server is not
// installed, the error matches ErrNoServer.
func (b *Backend) Own(ctx context.Context) (*Backend, error) {
	if b.restart != nil {
		return embedded()
	}
	return Start(ctx)
}

// Restart ends the server, which has to be ours, and starts an empty one at the
// same address after a while.
func (b *Backend) Restart(ctx context.Context, away time.Duration) error { return b.restart(ctx, away) }

func embedded() (*Backend, error) {
	mini, err := startMini("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := mini.Addr()
	client := redis.NewClient(&redis.Options{Addr: addr})
	return &Backend{
		Name: "embedded", Addr: addr, client: client,
		close: func() {
			_ = client.Close()
			mini.Close()
		},
		restart: func(ctx context.Context, away time.Duration) (err error) {
			mini.Close()
			_ = clock.Sleep(ctx, away)
			mini, err = startMini(addr)
			return err
		},
	}, nil
}

func startMini(addr string) (*miniredis.Miniredis, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("an embedded Redis cannot be started: %w", err)
	}
	return mini, nil
}

// Start starts a redis-server process on a free port of the loopback interface,
// without persistence, that ends with this program or before.
// FAIRLIMIT_REDIS_SERVER names another program. If it is not installed, the
// error matches ErrNoServer.
func Start(ctx context.Context) (*Backend, error) {
	if _, err := exec.LookPath(redistest.ServerProgram()); err != nil {
		return nil, ErrNoServer
	}
	server, err := redistest.Start()
	if err != nil {
		return nil, fmt.Errorf("a redis-server cannot be started: %w", err)
	}
	b := &Backend{
		Name: "redis", Addr: server.Addr(), client: server.Client(), close: server.Stop, Process: &server,
		restart: func(ctx context.Context, away time.Duration) error {
			if err := server.Kill(); err != nil {
				return err
			}
			_ = clock.Sleep(ctx, away)
			return server.Restart()
		},
	}
	b.named(ctx)
	return b, nil
}
