package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// queuedUp returns the name of a limiter in which ten wait, and its state.
func queuedUp(t *testing.T, rdb *redis.Client) (name, state string) {
	name = redistest.Name(t)
	l := named(t, rdb, name, fairlimit.PerHour(1))
	for range 10 {
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	state, err := rdb.Get(t.Context(), limitertest.Key(name)).Result()
	require.NoError(t, err)
	return name, state
}

// TestWhatANeighbourLeavesInTheKeyIsAnErrorAndIsLeftAlone puts into the key
// what a limiter did not write.
func TestWhatANeighbourLeavesInTheKeyIsAnErrorAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	_, own := queuedUp(t, rdb)
	mark, rest, _ := strings.Cut(own, " ")
	text := func(value string) func(ctx context.Context, key string) error {
		return func(ctx context.Context, key string) error { return rdb.Set(ctx, key, value, time.Hour).Err() }
	}
	neighbours := map[string]func(ctx context.Context, key string) error{
		"a word":               text("garbage"),
		"nothing":              text(""),
		"a number":             text("42"),
		"bytes":                text("\x00\xff\n\r\n\x00"),
		"a megabyte":           text(strings.Repeat("x", 1<<20)),
		"a megabyte of digits": text(mark + " " + strings.Repeat("9", 1<<20)),
		"a later version":      text("fair9 " + rest),
		"no version":           text(rest),
		"half of ours":         text(own[:len(own)/2]),
		"ours without a TTL":   func(ctx context.Context, key string) error { return rdb.Set(ctx, key, own, 0).Err() },
		"a hash": func(ctx context.Context, key string) error {
			return rdb.HSet(ctx, key, "rate", "1").Err()
		},
		"a list": func(ctx context.Context, key string) error { return rdb.RPush(ctx, key, own).Err() },
		"a set":  func(ctx context.Context, key string) error { return rdb.SAdd(ctx, key, own).Err() },
		"a sorted set": func(ctx context.Context, key string) error {
			return rdb.ZAdd(ctx, key, redis.Z{Member: own}).Err()
		},
		"a stream": func(ctx context.Context, key string) error {
			return rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err()
		},
	}
	for version := range 10 {
		if other := fmt.Sprintf("fair%d", version); other != mark {
			neighbours["the version "+other] = text(other + " " + rest)
		}
	}
	for name, leave := range neighbours {
		t.Run(name, func(t *testing.T) {
			name := redistest.Name(t)
			l, key := named(t, rdb, name, fairlimit.PerHour(1)), limitertest.Key(name)
			require.NoError(t, leave(t.Context(), key))
			before, ttl := rdb.Dump(t.Context(), key).Val(), rdb.PTTL(t.Context(), key).Val()

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // or a turn would be waited for
			defer cancel()
			for what, call := range calls(l) {
				if what == "Reset" || what == "WaitN" { // two never fit
					continue
				}
				require.ErrorIs(t, call(ctx), fairlimit.ErrState, what)
			}
			allowed, err := l.Allow(t.Context())
			require.ErrorIs(t, err, fairlimit.ErrState)
			require.False(t, allowed)
			require.Equal(t, before, rdb.Dump(t.Context(), key).Val(), "it is left alone")
			left := rdb.PTTL(t.Context(), key).Val()
			require.True(t, ttl < 0 && left == ttl || 0 < left && left <= ttl, "its TTL was %v and is %v", ttl, left)

			require.NoError(t, l.Reset(t.Context()))
			require.NoError(t, l.Wait(t.Context()))
			allowed, err = l.Allow(t.Context())
			require.NoError(t, err)
			require.False(t, allowed)
		})
	}
}

func TestAStateOfAnotherVersionEnds(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	name, own := queuedUp(t, rdb)
	other, key := "fair6"+strings.TrimPrefix(own, "fair5"), limitertest.Key(name)
	require.NoError(t, rdb.Set(t.Context(), key, other, 200*time.Millisecond).Err())
	l := named(t, rdb, name, fairlimit.PerHour(1)) // it knows of no turn
	_, err := l.Allow(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrState)
	require.Eventually(t, func() bool { return rdb.Exists(t.Context(), key).Val() == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, l.Wait(t.Context()))
}

func TestATTLTakenAwayIsAnErrorUntilReset(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	name, _ := queuedUp(t, rdb)
	l := named(t, rdb, name, fairlimit.PerHour(1))
	require.NoError(t, rdb.Persist(t.Context(), limitertest.Key(name)).Err())
	_, err := l.Allow(t.Context())
	require.ErrorIs(t, err, fairlimit.ErrState)
	require.NoError(t, l.Reset(t.Context()))
	require.NoError(t, l.Wait(t.Context()))
}

// TestADamagedStateIsAnErrorOrAState changes bytes at random. What can still be
// read is another state; what cannot is an error and is left alone.
func TestADamagedStateIsAnErrorOrAState(t *testing.T) {
	t.Parallel()
	const states = 600
	rdb := redistest.Standalone(t)
	_, own := queuedUp(t, rdb)
	random := rand.New(rand.NewPCG(3, 4))
	readable := 0
	for range states {
		damaged := []byte(own)
		for range 1 + random.IntN(3) {
			damaged[random.IntN(len(damaged))] = byte(random.IntN(256))
		}
		if random.IntN(3) == 0 {
			damaged = damaged[:random.IntN(len(damaged))]
		}
		name := redistest.Name(t)
		l, key := named(t, rdb, name, fairlimit.PerHour(1)), limitertest.Key(name)
		require.NoError(t, rdb.Set(t.Context(), key, damaged, time.Hour).Err())
		if _, err := l.Allow(t.Context()); err != nil {
			require.ErrorIs(t, err, fairlimit.ErrState, "%q", damaged)
			require.Equal(t, string(damaged), rdb.Get(t.Context(), key).Val(), "it is left alone")
		} else {
			readable++
		}
		require.NoError(t, l.Reset(t.Context()))
	}
	t.Logf("%d of %d damaged states were errors, the others could be read as another", states-readable, states)
}
