package fairlimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

const mostReplicas = 1000

// WithReplicas lets a turn count only once n replicas of the Redis that has the
// key have it, n from 1 to 1000. Without it, a failover to a replica that
// lagged behind forgets the turns granted last, and as many can be granted
// again.
//
// Script and WAIT go out in one pipeline on one connection, and WAIT has half a
// second, or half the client's ReadTimeout if that is less. If fewer than n
// replicas have the turns by then, nobody goes: the callers that were granted
// turns get [ErrNotReplicated], and their permits are given back at once.
// Refusals write nothing, and remain refusals. While too few replicas are
// there, every question takes that long, and all but refusals fail. Redis's own
// min-replicas-to-write makes them fail at once, with an error of Redis.
//
// It costs one more command in the same round trip, and the delay of
// replication: a turn that is due at once comes later by that. Status, Reset
// and what is given back do not wait for replicas. What it does not do: make a
// failover choose one of the n. A turn is safe if every replica has it, or if
// the most advanced one is promoted, as Sentinel and Cluster attempt.
//
// It takes a *redis.Client, which may be one under Sentinel, a
// *redis.ClusterClient or a *redis.Ring; [New] answers any other client with
// [ErrUnsupported]. An ACL has to allow WAIT.
func WithReplicas(n int) Option {
	return func(o *options) {
		if n < 1 || n > mostReplicas {
			o.refuse("WithReplicas: %d, want 1 to %d", n, mostReplicas)
		}
		o.replicas = n
	}
}

// canReplicate tells apart the clients whose one connection to the one server
// of a key can be had.
func (o *options) canReplicate(rdb redis.UniversalClient) error {
	if o.replicas == 0 {
		return nil
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient, *redis.Ring:
		return nil
	}
	return fmt.Errorf("%w: WithReplicas with a %T", ErrUnsupported, rdb)
}

// replicated gives back what was granted and is not on enough replicas, before
// anybody learns of it.
type replicated struct{ engine.Engine }

func (r replicated) Take(ctx context.Context, requests []engine.Request) ([]engine.Answer, error) {
	answers, err := r.Engine.Take(ctx, requests)
	if !errors.Is(err, ErrNotReplicated) || len(answers) == 0 {
		return answers, err
	}
	var grants []engine.Grant
	for _, a := range answers {
		if a.Granted {
			a.Grant.Unused = true
			grants = append(grants, a.Grant)
		}
	}
	if len(grants) == 0 {
		return answers, nil
	}
	what := fmt.Errorf("%w; the permits were given back", err)
	if problem := r.GiveBack(ctx, grants); problem != nil {
		what = fmt.Errorf("%w; the permits pass unused, as giving them back failed: %v", err, problem)
	}
	for i := range answers {
		if answers[i].Granted {
			answers[i] = engine.Answer{Err: what}
		}
	}
	return answers, nil
}
