package fairlimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestLearnedQuotasAreStoredIfTheyAreNewOnceAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		own := fairlimit.Quota{Permits: 9, Per: time.Minute, Burst: 5}
		all := processes(t, server, 2, own, fairlimit.WithStoredQuota(),
			fairlimit.WithUnit("tokens", fairlimit.PerHour(100)))
		perSecond, perMinute := fairlimit.PerSecond(1), fairlimit.PerMinute
		for _, step := range []struct {
			after  time.Duration
			learns []fairlimit.Quota
			stored string
		}{
			{0, []fairlimit.Quota{perMinute(9)}, ""}, // its own hold
			{0, []fairlimit.Quota{perMinute(7), perMinute(8), perSecond}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{0, []fairlimit.Quota{perSecond, perMinute(7)}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{59 * time.Second, []fairlimit.Quota{perMinute(4)}, "1/1s 7/1m burst 5; tokens 100/1h"},
			{time.Second, []fairlimit.Quota{perMinute(4)}, "4/1m burst 4; tokens 100/1h"},
			{time.Second, []fairlimit.Quota{perMinute(4)}, "4/1m burst 4; tokens 100/1h"},
		} {
			time.Sleep(step.after)
			for _, q := range all {
				require.NoError(t, q.LearnQuotas(t.Context(), step.learns...))
			}
			text, _ := server.Get("fairlimit:{q}:quota")
			require.Equal(t, step.stored, text)
		}
		time.Sleep(time.Minute)
		require.NotContains(t, server.Keys(), "fairlimit:{q}:quota:learned", "it expires")
	})
}

func TestQuotasThatCannotBeStoredAreNotLearned(t *testing.T) {
	bubble(t, func(t *testing.T, server *redistest.MiniServer) {
		own := queueOf(t, server.Client, "q", fairlimit.PerMinute(2))
		require.ErrorIs(t, own.LearnQuotas(t.Context(), fairlimit.PerMinute(3)), fairlimit.ErrUnsupported)
		q := queueOf(t, server.Client, "q", fairlimit.PerMinute(2), fairlimit.WithStoredQuota())
		require.ErrorIs(t, q.LearnQuotas(t.Context()), fairlimit.ErrInvalidQuota)
		require.ErrorIs(t, q.LearnQuotas(t.Context(), fairlimit.PerMinute(0)), fairlimit.ErrInvalidQuota)
		require.ErrorIs(t, q.LearnQuotas(t.Context(), fairlimit.PerHour(1<<40)), fairlimit.ErrUnsupported)
		require.Empty(t, server.Keys())
	})
}
