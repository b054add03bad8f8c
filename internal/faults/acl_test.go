package faults_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAnACLOfAClusterNeedsToAllowItsMapAsWell is about what go-redis asks of a
// cluster before it sends anything on.
func TestAnACLOfAClusterNeedsToAllowItsMapAsWell(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	for _, also := range []string{"", "+cluster|slots"} {
		words := []any{"acl", "setuser", "limited", "reset", "on", ">secret", "~fairlimit:*"}
		for command := range strings.FieldsSeq("evalsha eval time get getrange setrange pttl pexpire psetex") {
			words = append(words, "+"+command)
		}
		if also != "" {
			words = append(words, also)
		}
		for _, node := range append(slices.Clone(g.Masters), g.Replica) {
			require.NoError(t, node.Client().Do(t.Context(), words...).Err())
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{g.Masters[0].Addr()}, Username: "limited", Password: "secret",
		})
		l := limiter(t, rdb, fairlimit.PerHour(2))
		allowed, err := l.Allow(t.Context())
		require.NoError(t, rdb.Close())
		if also == "" {
			require.ErrorContains(t, err, "NOPERM")
			continue
		}
		require.NoError(t, err)
		require.True(t, allowed)
	}
}
