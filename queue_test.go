package fairlimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/window"
)

func TestWindowHasNoQueue(t *testing.T) {
	onWindow := fairlimit.WithEngine(window.New)
	_, err := fairlimit.NewQueue(nowhere(t), "n", fairlimit.PerSecond(1), onWindow)
	require.ErrorIs(t, err, fairlimit.ErrUnsupported)
	_, err = fairlimit.Open(nowhere(t), "n", onWindow)
	require.Error(t, err)
	for name, opt := range map[string]fairlimit.Option{
		"WithPauseWithin": fairlimit.WithPauseWithin(time.Second),
		"WithMaxLateness": fairlimit.WithMaxLateness(time.Second),
		"WithStoredQuota": fairlimit.WithStoredQuota(),
	} {
		_, err = fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), onWindow, opt)
		require.ErrorIs(t, err, fairlimit.ErrUnsupported, name)
	}
}

func TestNewMakesAQueueOnFair(t *testing.T) {
	l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1))
	require.NoError(t, err)
	assert.IsType(t, &fairlimit.Queue{}, l)
}

func TestNegativeTimesAreNoOptions(t *testing.T) {
	for _, opt := range []fairlimit.Option{fairlimit.WithPauseWithin(-1), fairlimit.WithMaxLateness(-1)} {
		_, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(1), opt)
		require.ErrorIs(t, err, fairlimit.ErrInvalidOption)
	}
}

func TestQuotasAreSetAsTheyAreGiven(t *testing.T) {
	_, q := newSteered(t)
	require.ErrorIs(t, q.SetQuotas(t.Context()), fairlimit.ErrInvalidQuota, "none")
	require.ErrorIs(t, q.SetQuotas(t.Context(), fairlimit.Quota{}), fairlimit.ErrInvalidQuota)
	require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerSecond(20), fairlimit.Quota{Permits: 100, Per: 2 * time.Minute}))
}

func TestAQuotaIsText(t *testing.T) {
	for text, quota := range map[string]fairlimit.Quota{
		"20/1s":            fairlimit.PerSecond(20),
		"100/2m burst 10":  {Permits: 100, Per: 2 * time.Minute, Burst: 10},
		"1/1h30m":          fairlimit.Every(90 * time.Minute),
		"3/500ms":          {Permits: 3, Per: 500 * time.Millisecond},
		"1000000/24h":      {Permits: 1_000_000, Per: 24 * time.Hour},
		"1/1.5s":           fairlimit.Every(1500 * time.Millisecond),
		"60/1m burst 1":    {Permits: 60, Per: time.Minute, Burst: 1},
		"9/1h0m1s burst 9": {Permits: 9, Per: time.Hour + time.Second, Burst: 9},
	} {
		got, err := fairlimit.ParseQuota(text)
		require.NoError(t, err, text)
		assert.Equal(t, quota, got, text)
		again, err := fairlimit.ParseQuota(quota.String())
		require.NoError(t, err, quota)
		assert.Equal(t, quota, again)
	}
	assert.Equal(t, "100/2m burst 10", fairlimit.Quota{Permits: 100, Per: 2 * time.Minute, Burst: 10}.String())
	assert.Equal(t, "20/1s", fairlimit.PerSecond(20).String())
	for _, text := range []string{"", "20", "20/", "/1s", "20/1s 3/1m", "0/1s", "3/0s", "3/-1s", "3/1s burst", "3/1s burst 4", "x/1s"} {
		_, err := fairlimit.ParseQuota(text)
		require.ErrorIs(t, err, fairlimit.ErrInvalidQuota, text)
	}
}
