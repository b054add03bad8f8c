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

var (
	// ErrNotOurs says that a server cannot be restarted.
	ErrNotOurs = errors.New("it is not the benchmark's to restart")

	// ErrNoServer says that there is no redis-server to start.
	ErrNoServer = errors.New("there is no redis-server in PATH")
)

// Own returns a server of the same kind that is ours to restart: it loses what
// it holds, as any Redis without persistence. For the embedded one that is
// another embedded one. For one that was given, it is a redis-server process on
// a free port of the loopback interface. If redis-server is not installed, the
// error matches ErrNotOurs.
func (b *Backend) Own(ctx context.Context) (*Backend, error) {
	if b.Addr == b.embedded {
		return ownEmbedded()
	}
	return ownServer(ctx)
}

// Restart ends the server, and starts an empty one at the same address after a
// while.
func (b *Backend) Restart(ctx context.Context, away time.Duration) error {
	if b.restart == nil {
		return fmt.Errorf("the Redis at %s: %w", b.Addr, ErrNotOurs)
	}
	return b.restart(ctx, away)
}

func ownEmbedded() (*Backend, error) {
	mini, err := startMini("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := mini.Addr()
	client := redis.NewClient(&redis.Options{Addr: addr})
	return &Backend{
		Name: "embedded", Addr: addr, embedded: addr, client: client,
		close: func() {
			_ = client.Close()
			mini.Close()
		},
		restart: func(ctx context.Context, away time.Duration) error {
			mini.Close()
			_ = clock.Sleep(ctx, away)
			again, err := startMini(addr)
			if err != nil {
				return err
			}
			mini = again
			return nil
		},
	}, nil
}

func startMini(addr string) (*miniredis.Miniredis, error) {
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("an embedded Redis cannot be started: %w", err)
	}
	mini.ClockTTL(true)
	return mini, nil
}

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
	server, err := redistest.Start()
	if err != nil {
		return nil, fmt.Errorf("a redis-server cannot be started: %w", err)
	}
	b := &Backend{
		Name: "redis", Addr: server.Addr(), client: server.Client(), close: server.Stop,
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
