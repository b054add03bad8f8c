package gitlab_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/gitlab"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
)

// tooMany refuses the first calls.
func tooMany(refusals int, header, value string) func(int, http.ResponseWriter, *http.Request) {
	return func(call int, w http.ResponseWriter, _ *http.Request) {
		if call <= refusals {
			w.Header().Set(header, value)
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprint(w, `{"id": 1, "name": "tanuki"}`)
	}
}

func TestEachAttemptTakesATurn(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, tooMany(2, "X-Request-Id", "1"))
	server := fairlimittest.Start(t)
	client, err := example.NewClient(server.Client(t), fairlimit.PerHour(10), service.URL, "token")
	require.NoError(t, err)

	project, _, err := client.Projects.GetProject(1, nil)
	require.NoError(t, err)
	assert.Equal(t, "tanuki", project.Name)
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-3, available(t, server), "three attempts, three turns")
}

// TestTheClientsOwnPlaceForALimiterIsAboveItsRetries is why the example does not
// use it.
func TestTheClientsOwnPlaceForALimiterIsAboveItsRetries(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, tooMany(2, "X-Request-Id", "1"))
	server := fairlimittest.Start(t)
	client, err := gitlab.NewClient("token", gitlab.WithBaseURL(service.URL),
		gitlab.WithCustomLimiter(server.Queue(t, "gitlab", fairlimit.PerHour(10))))
	require.NoError(t, err)

	_, _, err = client.Projects.GetProject(1, nil)
	require.NoError(t, err)
	assert.Len(t, service.Calls(), 3)
	assert.Equal(t, 10-1, available(t, server), "three attempts, one turn")
}

func TestA429PausesEverybody(t *testing.T) {
	t.Parallel()
	service := fake.Start(t, tooMany(1, "Retry-After", "600"))
	server := fairlimittest.Start(t)
	var clients [2]*gitlab.Client
	for i := range clients {
		var err error
		clients[i], err = example.NewClient(server.Client(t), fairlimit.PerHour(10), service.URL, "token")
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, client := range clients { // the first one's retry is refused, as are all calls of the second
		_, _, err := client.Projects.GetProject(1, nil, gitlab.WithContext(ctx))
		require.ErrorIs(t, err, fairlimit.ErrPaused)
	}
	assert.Len(t, service.Calls(), 1)
}

func available(t *testing.T, server *fairlimittest.Server) int {
	t.Helper()
	return fake.Status(t, server.Queue(t, "gitlab", fairlimit.PerHour(10))).Available
}
