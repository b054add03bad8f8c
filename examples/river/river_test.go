package river_test

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // River's other driver needs a Postgres
	upstream "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/river"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// start starts a client whose jobs take turns in the queue.
func start(
	t *testing.T, queue *fairlimit.Queue, send func(context.Context, example.ReportArgs) error,
) *upstream.Client[*sql.Tx] {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "jobs")+"?_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)

	workers := upstream.NewWorkers()
	upstream.AddWorker(workers, &example.ReportWorker{Queue: queue, Send: send})
	client, err := upstream.NewClient(riversqlite.New(db), &upstream.Config{
		Workers:           workers,
		Queues:            map[string]upstream.QueueConfig{upstream.QueueDefault: {MaxWorkers: 10}},
		FetchPollInterval: 100 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	require.NoError(t, client.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, client.Stop(context.WithoutCancel(t.Context()))) })
	return client
}

func TestAJobWithAFarTurnIsSnoozed(t *testing.T) {
	t.Parallel()
	queue := fairlimittest.New(t, fairlimit.PerHour(1))
	sent := make(chan int, 10)
	client := start(t, queue, func(_ context.Context, report example.ReportArgs) error {
		sent <- report.Number
		return nil
	})
	events, stop := client.Subscribe(
		upstream.EventKindJobCompleted, upstream.EventKindJobSnoozed, upstream.EventKindJobFailed)
	defer stop()

	for number := range 2 {
		_, err := client.Insert(t.Context(), example.ReportArgs{Number: number}, nil)
		require.NoError(t, err)
		event := <-events
		if number == 0 {
			require.Equal(t, upstream.EventKindJobCompleted, event.Kind)
			assert.Equal(t, 0, <-sent)
			continue
		}
		require.Equal(t, upstream.EventKindJobSnoozed, event.Kind)
		assert.WithinDuration(t, time.Now().Add(time.Hour), event.Job.ScheduledAt, time.Minute)
		assert.Empty(t, sent)
	}
	assert.Zero(t, status(t, queue).Queued, "it holds no place")
}

func TestAJobWaitsForANearTurn(t *testing.T) {
	t.Parallel()
	const every = 200 * time.Millisecond
	queue := fairlimittest.New(t, fairlimit.Every(every))
	sent := make(chan time.Time, 10)
	begin := time.Now()
	client := start(t, queue, func(context.Context, example.ReportArgs) error {
		sent <- time.Now()
		return nil
	})
	for number := range 4 {
		_, err := client.Insert(t.Context(), example.ReportArgs{Number: number}, nil)
		require.NoError(t, err)
	}
	for number := range 4 {
		assert.GreaterOrEqual(t, (<-sent).Sub(begin), time.Duration(number)*every)
	}
}

func status(t *testing.T, queue *fairlimit.Queue) fairlimit.Status {
	t.Helper()
	s, err := queue.Status(t.Context())
	require.NoError(t, err)
	return s
}
