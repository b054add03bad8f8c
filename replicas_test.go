package fairlimit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
)

// thrifty is an engine whose grants are on too few replicas, and that takes
// nothing back.
type thrifty struct {
	*stub
	refuses error
	most    int // callers in one question
}

const refusedPermits = 7

func (e *thrifty) Take(_ context.Context, requests []engine.Request) ([]engine.Answer, error) {
	e.most = max(e.most, len(requests))
	time.Sleep(time.Second)
	answers := make([]engine.Answer, len(requests))
	for i, r := range requests {
		answers[i] = granted(0, r.N)
		if r.N == refusedPermits {
			answers[i] = refused(time.Hour)
		}
	}
	return answers, fmt.Errorf("%w: of some", fairlimit.ErrNotReplicated)
}

func (e *thrifty) GiveBack(context.Context, []engine.Grant) error { return e.refuses }

func TestWhatCannotBeGivenBackIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &thrifty{stub: &stub{queues: true}, refuses: assert.AnError}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(9), fairlimit.WithEngine(build),
			fairlimit.WithReplicas(1))
		require.NoError(t, err)
		err = l.Wait(t.Context())
		require.ErrorIs(t, err, fairlimit.ErrNotReplicated)
		assert.Contains(t, err.Error(), assert.AnError.Error())
		assert.Contains(t, err.Error(), "pass unused")
	})
}

func TestARefusalBesideAGrantThatIsOnNoReplicaIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &thrifty{stub: &stub{queues: true}}
		build := func(engine.Config) (engine.Engine, error) { return e, nil }
		l, err := fairlimit.New(nowhere(t), "n", fairlimit.PerSecond(9), fairlimit.WithEngine(build),
			fairlimit.WithReplicas(1))
		require.NoError(t, err)
		var callers sync.WaitGroup
		for _, n := range []int{1, 1, refusedPermits} { // the first goes alone, the others together
			callers.Go(func() {
				err := l.WaitN(t.Context(), n)
				if n == refusedPermits {
					assert.ErrorAs(t, err, new(*fairlimit.RefusedError))
				} else {
					assert.ErrorIs(t, err, fairlimit.ErrNotReplicated)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(t, 2, e.most)
	})
}
