package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/internal/clock"
)

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
