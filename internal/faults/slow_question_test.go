package faults_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// TestAConnectionThatIsReplacedHoldsNobodyForLonger has limiters that were
// answered before, by connections that are broken now. Each reply comes just
// before the client would give up.
func TestAConnectionThatIsReplacedHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
		heedsCtx bool
	}{{"as it is", false}, {"with ContextTimeoutEnabled", true}} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s, p := redistest.StartServer(t), redistest.StartProxy(t)
			rdb := p.Client(&redis.Options{
				Addr: s.Addr(), ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: test.heedsCtx,
			})
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			require.NoError(t, l.Wait(t.Context()))
			bystander := standBy(t)
			p.Delay(2900 * time.Millisecond)
			p.Cut()
			start := time.Now()
			err := l.Wait(t.Context())
			bystander.back(t, start, answerDue, "Wait")
			require.Error(t, err)
		})
	}
}

func TestAClusterThatStandsStillHoldsNobodyForLonger(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	nodes := append([]*redistest.Server{g.Replica}, g.Masters...)
	for _, node := range nodes {
		node.Pause()
	}
	bystander := standBy(t)
	var all sync.WaitGroup
	for _, heedsCtx := range []bool{false, true} {
		for _, name := range []string{"Wait", "Allow", "ReserveN"} { // which share questions
			rdb := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: g.Client.Options().Addrs, ContextTimeoutEnabled: heedsCtx,
			})
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerSecond(10))
			all.Go(func() {
				assert.ErrorIs(t, bystander.overdue(t, name, calls(l)[name]), fairlimit.ErrOutcomeUnknown, name)
			})
		}
	}
	all.Wait()
	for _, node := range nodes { // a client that is closed during a call waits for it
		node.Resume()
	}
}
