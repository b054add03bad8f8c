package resty_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	upstream "resty.dev/v3"

	"github.com/fairlimit/fairlimit/examples/internal/fake"
	example "github.com/fairlimit/fairlimit/examples/resty"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func client(t testing.TB, p *fake.Place) func(context.Context) error {
	return getting(newClient(t, p))
}

func newClient(t testing.TB, p *fake.Place) *upstream.Client {
	client := example.NewClient(p.Queue(t), p.URL)
	t.Cleanup(func() {
		client.Client().CloseIdleConnections()
		assert.NoError(t, client.Close())
	})
	return client
}

func getting(client *upstream.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.R().SetContext(ctx).Get("/rates")
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
		return getting(newClient(t, p).SetRetryCount(0))
	}, "Retry-After", "600")
}

func TestARefusedTurnEndsTheCall(t *testing.T) {
	t.Parallel()
	fake.ARefusedTurnEndsTheCall(t, client, fake.OK)
}
