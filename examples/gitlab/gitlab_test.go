package gitlab_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	gitlab "gitlab.com/gitlab-org/api/client-go"

	example "github.com/fairlimit/fairlimit/examples/gitlab"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func client(t testing.TB, p *fake.Place) func(context.Context) error {
	client, err := example.NewClient(p.Redis.Client(t), p.Quota, p.URL, "token")
	require.NoError(t, err)
	return func(ctx context.Context) error {
		_, _, err := client.Projects.GetProject(1, nil, gitlab.WithContext(ctx))
		return err
	}
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	fake.EachAttemptTakesATurn(t, "gitlab", client, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"id": 1, "name": "tanuki"}`)
	})
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	fake.A429PausesEverybody(t, client, "Retry-After", "600")
}
