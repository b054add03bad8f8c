package fairlimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

const mostReplicas = 1000

// WithReplicas lets a turn count only once n replicas have it. They are replicas
// of the Redis that holds the key, and n is 1 to 1000. Without this option, a
// failover to a replica that lagged behind forgets the newest turns, and as many
// can be granted again.
//
// The script and WAIT go out in one pipeline on one connection. WAIT waits for
// half a second, or half of the client's ReadTimeout if that is less. If fewer
// than n replicas have the turns by then, nobody goes: the callers that were
// granted turns get [ErrNotReplicated], and their permits are given back at
// once. Refusals write nothing, and remain refusals. While there are too few
// replicas, every question takes that long and fails, except for refusals. With
// min-replicas-to-write it takes as long, and the error is that of Redis,
// NOREPLICAS. Redis looks at that setting inside scripts from 6.2.7 on.
//
// It costs one more command in the same round trip, and the delay of
// replication: a turn that is due at once comes later by that. Status, Reset and
// returned permits do not wait for replicas. A failover need not choose one of
// the n. A turn is safe if every replica has it, or if the most advanced replica
// is promoted, as Sentinel and Cluster attempt.
//
// The client has to be a *redis.Client (also one under Sentinel), a
// *redis.ClusterClient or a *redis.Ring. For any other client the error of [New]
// matches [ErrUnsupported]. An ACL has to allow WAIT.
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
