package fairlimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// stuck is an engine whose calls wait for the end of the test.
type stuck struct {
	*stub
	until chan struct{}
}

func (e *stuck) Take(context.Context, []engine.Request) ([]engine.Answer, error) {
	<-e.until
	return nil, assert.AnError
}

func (e *stuck) Status(context.Context) (engine.Status, error) {
	<-e.until
	return engine.Status{Available: 7}, nil
}

func (e *stuck) Reset(context.Context) error {
	<-e.until
	return nil
}

func TestEveryMethodReturnsAfterFiveSeconds(t *testing.T) {
	for _, name := range []string{"Wait", "WaitN", "Allow", "ReserveN", "Status", "Reset"} {
		synctest.Test(t, func(t *testing.T) {
			e := &stuck{&stub{queues: true}, make(chan struct{})}
			build := func(engine.Config) (engine.Engine, error) { return e, nil }
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1})
			defer func() { _ = rdb.Close() }()
			l, err := fairlimit.New(rdb, "n", fairlimit.PerSecond(1), fairlimit.WithEngine(build))
			require.NoError(t, err)
			start := time.Now()
			err = calls(l.(fairlimit.Reserver))[name](context.Background())
			require.ErrorIs(t, err, fairlimit.ErrOutcomeUnknown, name)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "%s: nobody's deadline", name)
			assert.Equal(t, 5*time.Second, time.Since(start), name)
			close(e.until)
		})
	}
}
