package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// Cluster returns a new client of a cluster of three masters that all tests of the binary share; it is started by the first of them and never
// flushed. The client is closed when the test ends.
func Cluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	needRedis(t)
	nodes, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

var cluster = sync.OnceValues(func() (nodes []*Server, err error) {
	defer func() {
		if err != nil {
			for _, node := range nodes {
				node.stop()
			}
		}
	}()
	for range masters {
		node, err := launch(alone(
			"--cluster-enabled", "yes",
			"--cluster-announce-ip", "127.0.0.1",
			"--cluster-node-timeout", "3000", // milliseconds; a machine busy with tests must not take a node for dead
		))
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	return nodes, form(nodes)
})

// form makes one cluster of empty nodes and returns when every one of them knows all slots.
func form(nodes []*Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for i, node := range nodes {
		// Nodes of equal epoch would first have to agree on another.
		if err := node.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: set the epoch of a cluster node: %w", err)
		}
		if err := node.client.ClusterAddSlotsRange(ctx, i*slots/len(nodes), (i+1)*slots/len(nodes)-1).Err(); err != nil {
			return fmt.Errorf("redistest: assign cluster slots: %w", err)
		}
	}
	for _, node := range nodes[1:] {
		if err := nodes[0].client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(node.port)).Err(); err != nil {
			return fmt.Errorf("redistest: cluster meet: %w", err)
		}
	}
	return eventually(func(ctx context.Context) error {
		for _, node := range nodes {
			info, err := node.client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", "cluster_slots_assigned:16384", "cluster_size:3"} {
				if !strings.Contains(info, want) {
					return errors.New("redistest: the cluster is not ready: want " + want + ", have:\n" + info)
				}
			}
		}
		return nil
	})
}
