package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAClusterSpreadsNamesAndKeepsTheKeysOfOneTogether(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t)
	masters := map[string]bool{}
	for i := range 10 {
		name := fmt.Sprint("spread", i)
		q := named(t, rdb, name, fairlimit.PerHour(5), fairlimit.WithUnit("tokens", fairlimit.PerHour(100)),
			fairlimit.WithStoredQuota())
		require.NoError(t, q.SetQuotas(t.Context(), fairlimit.PerHour(4)))
		flow, err := q.Flow("billing", 1)
		require.NoError(t, err)
		_, err = flow.Take(t.Context(), fairlimit.Amounts{"": 1, "tokens": 10})
		require.NoError(t, err)
		master, err := rdb.MasterForKey(t.Context(), keyOf(name))
		require.NoError(t, err)
		masters[master.Options().Addr] = true
		slot := rdb.ClusterKeySlot(t.Context(), keyOf(name)).Val()
		keys, err := master.ClusterGetKeysInSlot(t.Context(), int(slot), 10).Result()
		require.NoError(t, err)
		require.Len(t, keys, 6, "a head, two logs, flows, the log of one, and quotas")
	}
	require.Len(t, masters, 3)
}

// Strict and FIFO: turns neither crowd nor go back, whichever node gave them.
func TestASlotOfAClusterThatMovesIsNoError(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	var mu sync.Mutex
	var all []time.Time
	var calling sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		l := named(t, redistest.Cluster(t), name, fairlimit.PerMinute(1))
		calling.Go(func() {
			for last := (time.Time{}); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				if r, err := l.ReserveN(t.Context(), 1); assert.NoError(t, err) {
					assert.True(t, r.Slot().After(last))
					last = r.Slot()
					mu.Lock()
					all = append(all, last)
					mu.Unlock()
				}
			}
		})
	}
	reserved := func() int { mu.Lock(); defer mu.Unlock(); return len(all) }
	eventually(t, func() bool { return reserved() > 10 }, "callers call")
	moveSlot(t, redistest.Cluster(t), keyOf(name))
	before := reserved()
	eventually(t, func() bool { return reserved() > before+10 }, "callers go on")
	stop()
	calling.Wait()
	slices.SortFunc(all, time.Time.Compare)
	for i := range len(all) - 1 {
		require.Greater(t, all[i+1].Sub(all[i]), 30*time.Second, "turns are a minute apart")
	}
}

// moveSlot moves the slot of a key with all its keys to another master, as a
// rebalancing would. Callers are redirected at every stage.
func moveSlot(t *testing.T, rdb *redis.ClusterClient, key string) {
	from, err := rdb.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	to := from
	for i := 0; to.Options().Addr == from.Options().Addr; i++ {
		to, err = rdb.MasterForKey(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
	}
	slot := rdb.ClusterKeySlot(t.Context(), key).Val()
	do := func(node *redis.Client, words ...any) {
		require.NoError(t, node.Do(t.Context(), words...).Err(), "%v", words)
	}
	refuses := func(node *redis.Client) {
		eventually(t, func() bool { return refusals(t, node, "TRYAGAIN") != "" }, "callers are told to try again")
	}
	do(to, "cluster", "setslot", slot, "importing", from.ClusterMyID(t.Context()).Val())
	do(from, "cluster", "setslot", slot, "migrating", to.ClusterMyID(t.Context()).Val())
	refuses(from)
	keys := from.ClusterGetKeysInSlot(t.Context(), int(slot), 100).Val()
	require.GreaterOrEqual(t, len(keys), 2, "a head and a log")
	for _, key := range keys {
		do(from, "migrate", "127.0.0.1", to.Options().Addr[len("127.0.0.1:"):], key, 0, 5000)
	}
	refuses(to)
	for _, node := range []*redis.Client{to, from} {
		do(node, "cluster", "setslot", slot, "node", to.ClusterMyID(t.Context()).Val())
	}
}
