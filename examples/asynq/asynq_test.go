package asynq_test

import (
	"context"
	"testing"
	"time"

	upstream "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/asynq"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// work starts a server whose tasks take turns. It sends the moment at which each
// of them begins.
func work(t *testing.T, rdb redis.UniversalClient, queue *fairlimit.Queue) <-chan time.Time {
	t.Helper()
	began := make(chan time.Time, 10)
	config := example.Config()
	config.Queues = map[string]int{t.Name(): 1}
	config.TaskCheckInterval = 50 * time.Millisecond
	config.LogLevel = upstream.FatalLevel
	mux := upstream.NewServeMux()
	mux.Use(example.InTurn(queue))
	mux.HandleFunc("report", func(context.Context, *upstream.Task) error {
		began <- time.Now()
		return nil
	})
	server := upstream.NewServerFromRedisClient(rdb, config)
	require.NoError(t, server.Start(mux))
	t.Cleanup(server.Shutdown)
	return began
}

func enqueue(t *testing.T, rdb redis.UniversalClient) *upstream.TaskInfo {
	t.Helper()
	client := upstream.NewClientFromRedisClient(rdb)
	info, err := client.Enqueue(upstream.NewTask("report", nil), upstream.Queue(t.Name()))
	require.NoError(t, err)
	return info
}

func TestAWorkerWaitsForANearTurn(t *testing.T) {
	t.Parallel()
	const every = 200 * time.Millisecond
	rdb := redistest.Standalone(t)
	queue, err := fairlimit.NewQueue(rdb, redistest.Name(t), fairlimit.Every(every), fairlimit.WithMaxWait(time.Minute))
	require.NoError(t, err)
	start := time.Now()
	for range 4 {
		enqueue(t, rdb)
	}
	began := work(t, rdb, queue)
	for i := range 4 {
		assert.GreaterOrEqual(t, (<-began).Sub(start), time.Duration(i)*every)
	}
}

func TestATaskWithAFarTurnComesBackThen(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	queue, err := fairlimit.NewQueue(rdb, redistest.Name(t), fairlimit.PerHour(1), fairlimit.WithMaxWait(time.Second))
	require.NoError(t, err)
	began := work(t, rdb, queue)
	enqueue(t, rdb)
	<-began
	task := enqueue(t, rdb)
	inspector := upstream.NewInspectorFromRedisClient(rdb)
	require.Eventually(t, func() bool {
		task, err = inspector.GetTaskInfo(t.Name(), task.ID)
		return err == nil && task.State == upstream.TaskStateRetry
	}, 10*time.Second, 10*time.Millisecond)
	assert.WithinDuration(t, time.Now().Add(time.Hour), task.NextProcessAt, time.Minute)
	assert.Zero(t, task.Retried, "a refusal is not a failure")
	status, err := queue.Status(t.Context())
	require.NoError(t, err)
	assert.Zero(t, status.Queued, "it holds no place")
}
