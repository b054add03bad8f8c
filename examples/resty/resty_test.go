package resty_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/resty"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func client(t testing.TB, p *fake.Place) func(context.Context) error { return retrying(t, p, 3) }

func retrying(t testing.TB, p *fake.Place, retries int) func(context.Context) error {
	client := example.NewClient(p.Queue(t), p.URL)
	t.Cleanup(func() {
		client.Client().CloseIdleConnections()
		assert.NoError(t, client.Close())
	})
	return func(ctx context.Context) error {
		_, err := client.R().SetContext(ctx).SetRetryCount(retries).Get("/rates")
		return err
	}
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	fake.EachAttemptTakesATurn(t, "service", client, fake.OK)
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	// With retries, resty itself would sleep for as long as the service says.
	fake.A429PausesEverybody(t, func(t testing.TB, p *fake.Place) func(context.Context) error {
		return retrying(t, p, 0)
	}, "Retry-After", "600")
}

func TestARefusedTurnEndsTheCall(t *testing.T) {
	t.Parallel()
	fake.ARefusedTurnEndsTheCall(t, client, fake.OK)
}
