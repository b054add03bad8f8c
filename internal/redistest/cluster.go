package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// Cluster returns a new client of a cluster of three masters that all tests of
// the binary share; it is started by the first of them and never flushed. The
// client is closed when the test ends.
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
	t.Cleanup(func() { Close(rdb) })
	return rdb
}

// On a busy machine, no node of the shared cluster may be taken for dead. In a
// cluster that a test breaks, a dead node must be found soon.
const (
	patientNodes = 3000 * time.Millisecond
	briskNodes   = 1000 * time.Millisecond
)

var cluster = sync.OnceValues(func() ([]*Server, error) { return launchCluster(patientNodes) })

// ClusterGroup is a cluster of three masters, the first of which has a replica
// that takes over a second or two after it has fallen silent.
type ClusterGroup struct {
	Client  *redis.ClusterClient
	Masters []*Server
	Replica *Server
}

// StartCluster starts a cluster for this test alone. The replica is in sync.
// All ends with the test.
func StartCluster(t testing.TB) *ClusterGroup {
	t.Helper()
	needRedis(t)
	nodes, err := launchCluster(briskNodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		node.own(t)
	}
	g := &ClusterGroup{Masters: nodes}
	if g.Replica, err = launch(node(briskNodes)); err != nil {
		t.Fatal(err)
	}
	g.Replica.own(t)
	if err := errors.Join(follow(g.Replica, nodes[0], nodes), heard(nodes[0])); err != nil {
		t.Fatal(err)
	}
	g.Client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[1].Addr(), nodes[2].Addr(), nodes[0].Addr()},
		// A failover is noticed at the next reload; the default is 10 s.
		ClusterStateReloadInterval: time.Second,
	})
	t.Cleanup(func() { Close(g.Client) })
	return g
}

// ID is the node's name in the cluster.
func (g *ClusterGroup) ID(t testing.TB, node *Server) string {
	t.Helper()
	id, err := node.client.ClusterMyID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func node(patience time.Duration) func(dir string, port int) ([]string, error) {
	return alone(
		"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-node-timeout", fmt.Sprint(patience.Milliseconds()),
		"--repl-diskless-sync-delay", "0",
	)
}

// follow makes the replica one of the primary's, and returns when it is in sync
// and every node knows it.
func follow(replica, primary *Server, nodes []*Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	id, err := primary.client.ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	if err := replica.client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(primary.port.number)).Err(); err != nil {
		return err
	}
	if err := eventually(func(ctx context.Context) error {
		return replica.client.ClusterReplicate(ctx, id).Err()
	}); err != nil {
		return fmt.Errorf("redistest: cluster replicate: %w", err)
	}
	return eventually(func(ctx context.Context) error {
		for _, node := range nodes {
			known, err := node.client.ClusterNodes(ctx).Result()
			if err != nil || strings.Count(known, "slave "+id) != 1 {
				return fmt.Errorf("redistest: a node does not know the replica: %w, %s", err, known)
			}
		}
		info, err := replica.client.Info(ctx, "replication").Result()
		if err != nil || !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("redistest: the replica is not in sync: %w, %s", err, info)
		}
		return nil
	})
}

func launchCluster(patience time.Duration) (nodes []*Server, err error) {
	defer func() {
		if err != nil {
			for _, node := range nodes {
				node.stop()
			}
		}
	}()
	for range masters {
		node, err := launch(node(patience))
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	return nodes, form(nodes)
}

// form makes one cluster of empty nodes and returns when every one of them
// knows all slots.
func form(nodes []*Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for i, node := range nodes {
		// Nodes of equal epoch would first have to agree on another.
		if err := node.client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: set the epoch of a cluster node: %w", err)
		}
		first, last := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		if err := node.client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return fmt.Errorf("redistest: assign cluster slots: %w", err)
		}
	}
	for _, node := range nodes[1:] {
		if err := nodes[0].client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(node.port.number)).Err(); err != nil {
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
