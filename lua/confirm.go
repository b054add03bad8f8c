package lua

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/clock"
)

// replicationBound is how long the server waits for its replicas; less where
// the client would not wait as long for the answer.
const replicationBound = 500 * time.Millisecond

// Confirmed returns the script as it runs where what it writes counts only once
// so many replicas have it. Its Run returns an error that matches
// [engine.ErrNotReplicated], beside the reply, where they had not in time: what
// the reply says was done, but a failover may undo it. Every run, whether it
// writes or not, waits for that time while there are too few replicas. 0
// replicas are the script as it is.
func (s *Script) Confirmed(replicas int) *Script {
	if replicas == 0 {
		return s
	}
	confirmed := *s
	confirmed.replicas = replicas
	return &confirmed
}

// send sends one command of the script one time.
func (s *Script) send(ctx context.Context, rdb redis.UniversalClient, key string, words []any) (any, error) {
	if s.replicas == 0 {
		return once(ctx, rdb, words...)
	}
	node, err := master(ctx, rdb, key)
	if err != nil {
		return nil, err
	}
	reply, err := together(ctx, node, false, s.replicas, words)
	cluster, _ := rdb.(*redis.ClusterClient)
	follows := func() bool { return cluster != nil && redirected(err) }
	for pause := firstPause; follows() && clock.Sleep(ctx, pause) == nil; pause = min(2*pause, lastPause) {
		node, asking := follow(ctx, cluster, err)
		if node == nil { // a node that the cluster does not tell of yet
			if node, err = master(ctx, rdb, key); err != nil {
				return nil, err
			}
		}
		reply, err = together(ctx, node, asking, s.replicas, words)
	}
	return reply, err
}

// master is the one server that has the key. Redirects are not left to the
// client: it would follow with the script and not with WAIT.
func master(ctx context.Context, rdb redis.UniversalClient, key string) (*redis.Client, error) {
	var node *redis.Client
	var err error
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb, nil
	case *redis.ClusterClient:
		node, err = rdb.MasterForKey(ctx, key)
	case *redis.Ring:
		node, err = rdb.GetShardClientForKey(key)
	default:
		return nil, fmt.Errorf("%w: replicas of a %T", engine.ErrUnsupported, rdb)
	}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		return nil, Explain(ctx, err)
	case err != nil:
		return nil, fmt.Errorf("%w, nothing was sent: %v", engine.ErrUnreachable, err)
	}
	return node, nil
}

func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
}

// follow asks the cluster anew who is there, and picks the node that the
// redirect names, if it is.
func follow(ctx context.Context, cluster *redis.ClusterClient, redirect error) (node *redis.Client, asking bool) {
	addr, asking := redis.IsAskError(redirect)
	if !asking {
		addr, _ = redis.IsMovedError(redirect)
	}
	var found atomic.Pointer[redis.Client]
	_ = cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == addr {
			found.Store(node)
		}
		return nil
	})
	node = found.Load()
	return node, asking && node != nil
}

// together sends one command and WAIT in one pipeline: on another connection
// WAIT would tell nothing about the command.
func together(ctx context.Context, node *redis.Client, asking bool, replicas int, words []any) (any, error) {
	bound := waitBound(ctx, node)
	cmd := sentOnce{redis.NewCmd(ctx, words...)} // one that is sent once keeps the whole pipeline from being sent again
	wait := redis.NewIntCmd(ctx, "wait", replicas, bound.Milliseconds())
	pipe := node.Pipeline()
	if asking {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
	}
	_ = pipe.BatchProcess(ctx, cmd, wait)
	_, err := pipe.Exec(ctx)
	switch {
	case cmd.Err() != nil:
		return nil, Explain(ctx, cmd.Err())
	case cmd.Val() == nil && err != nil: // a connection that Redis does not let be set up
		return nil, Explain(ctx, err)
	case cmd.Val() == nil:
		return nil, fmt.Errorf("%w: an empty reply", engine.ErrOutcomeUnknown)
	case wait.Err() != nil:
		// By its text alone: an error of Redis would be taken for the script's,
		// which may be sent again.
		return cmd.Val(), fmt.Errorf("%w: WAIT: %v", engine.ErrNotReplicated, wait.Err())
	case wait.Val() < int64(replicas):
		return cmd.Val(), fmt.Errorf("%w: %d of %d had it within %v",
			engine.ErrNotReplicated, wait.Val(), replicas, bound)
	}
	return cmd.Val(), nil
}

// waitBound leaves half the time for the way there and back. It is never 0,
// which WAIT takes for ever.
func waitBound(ctx context.Context, node *redis.Client) time.Duration {
	bound := replicationBound
	if patience := node.Options().ReadTimeout; patience > 0 {
		bound = min(bound, patience/2)
	}
	if deadline, hasOne := ctx.Deadline(); hasOne {
		bound = min(bound, time.Until(deadline)/2)
	}
	return max(bound, time.Millisecond).Truncate(time.Millisecond)
}
