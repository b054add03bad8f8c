package github_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-github/v74/github"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	example "github.com/fairlimit/fairlimit/examples/github"
	"github.com/fairlimit/fairlimit/examples/internal/fake"
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func newClient(t *testing.T, server *fairlimittest.Server, service *fake.Service) *github.Client {
	t.Helper()
	client, err := example.NewClient(server.Client(t), "octocat", fairlimit.PerHour(10), "token")
	require.NoError(t, err)
	client.BaseURL, err = url.Parse(service.URL + "/")
	require.NoError(t, err)
	return client
}

func queue(t *testing.T, server *fairlimittest.Server) *fairlimit.Queue {
	t.Helper()
	return server.Queue(t, "github octocat", fairlimit.PerHour(10))
}

func TestRequestsOfAllClientsTakeTurns(t *testing.T) {
	service := fake.Start(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer token", r.Header.Get("Authorization"))
		_, _ = fmt.Fprint(w, `{"login": "octocat"}`)
	})
	server := fairlimittest.Start(t)
	for range 2 {
		user, _, err := newClient(t, server, service).Users.Get(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, "octocat", user.GetLogin())
	}
	assert.Equal(t, 10-2, fake.Status(t, queue(t, server)).Available)
}

func TestALimitPausesEverybody(t *testing.T) {
	const documentation = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api" +
		"#about-secondary-rate-limits"
	for name, limit := range map[string]struct {
		header http.Header
		want   any // of go-github
	}{
		"secondary": {http.Header{"Retry-After": {"3000"}}, new(*github.AbuseRateLimitError)},
		"primary": {http.Header{
			"X-Ratelimit-Limit":     {"5000"},
			"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset":     {fmt.Sprint(time.Now().Add(50 * time.Minute).Unix())},
		}, new(*github.RateLimitError)},
	} {
		t.Run(name, func(t *testing.T) {
			service := fake.Start(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				for key, values := range limit.header {
					w.Header()[key] = values
				}
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprintf(w, `{"message": "slow down", "documentation_url": %q}`, documentation)
			})
			server := fairlimittest.Start(t)
			first := newClient(t, server, service)
			_, _, err := first.Users.Get(t.Context(), "")
			require.ErrorAs(t, err, limit.want)
			assert.Greater(t, fake.Status(t, queue(t, server)).Paused, 45*time.Minute)

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, client := range []*github.Client{first, newClient(t, server, service)} {
				_, _, err := client.Users.Get(ctx, "")
				require.ErrorIs(t, err, fairlimit.ErrPaused)
			}
			assert.Len(t, service.Calls(), 1)
		})
	}
}
