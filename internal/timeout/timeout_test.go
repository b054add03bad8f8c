package timeout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// stubborn does not look at its ctx for a minute.
func stubborn(ctx context.Context) (int, error) {
	time.Sleep(time.Minute)
	return 7, ctx.Err()
}

func TestACallEndsWhenCtxDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		_, err := Call(ctx, time.Hour, stubborn)
		assert.Equal(t, time.Second, time.Since(start))
		for _, want := range []error{engine.ErrOutcomeUnknown, context.Canceled, why} {
			assert.ErrorIs(t, err, want)
		}
		time.Sleep(time.Minute) // what was left behind ends
	})
}

func TestACallEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, call := range map[string]func(context.Context) (int, error){
			"stubborn": stubborn,
			"obedient": func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
		} {
			start := time.Now()
			_, err := Call(context.Background(), 5*time.Second, call)
			assert.Equal(t, 5*time.Second, time.Since(start), what)
			assert.ErrorIs(t, err, engine.ErrOutcomeUnknown, what)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", what)
			time.Sleep(time.Minute)
		}
	})
}

func TestTheClientSaysHowLongACallMayTake(t *testing.T) {
	for read, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, time.Minute: 5 * time.Second, -1: 5 * time.Second, 0: 3 * time.Second,
	} {
		for _, rdb := range []redis.UniversalClient{
			redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: read}),
			redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: read}),
		} {
			assert.Equal(t, want, Of(rdb), "%T with %v", rdb, read)
			require.NoError(t, rdb.Close())
		}
	}
}
