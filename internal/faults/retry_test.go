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

// TestCallersWaitForAServerThatIsAway has some call before the limiter can know
// that the server is away, and others while it is.
func TestCallersWaitForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ goes, returns func(*redistest.Server) }{
		"stopped and started": { // with all that it had granted
			(*redistest.Server).Kill, (*redistest.Server).Restart,
		},
		"silent": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers = 60
			server := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always")
			rdb := redis.NewClient(&redis.Options{
				Addr: server.Addr(), DialTimeout: 200 * time.Millisecond, ReadTimeout: 200 * time.Millisecond,
			})
			defer redistest.Close(rdb)
			l := limiter(t, rdb, fairlimit.PerHour(1000), fairlimit.WithRetry())
			once := named(t, rdb, redistest.Name(t)+"2", fairlimit.Every(10*time.Millisecond), fairlimit.WithRetry())
			require.NoError(t, l.Wait(t.Context()))
			require.NoError(t, once.Wait(t.Context()))
			c.goes(server)
			var all sync.WaitGroup
			slots := make([]time.Time, callers)
			for i := range callers {
				all.Go(func() { assert.NoError(t, l.Wait(t.Context())) })
				all.Go(func() {
					r, err := once.ReserveN(t.Context(), 1)
					if assert.NoError(t, err) {
						slots[i] = r.Slot()
					}
				})
				time.Sleep(20 * time.Millisecond) // or they would share a question, and have no order
			}
			_, err := l.Allow(t.Context())
			require.Error(t, err)
			c.returns(server)
			back := time.Now()
			all.Wait()
			t.Logf("all went %v after the server was back", time.Since(back))
			assert.Less(t, time.Since(back), 10*time.Second)
			for i := range callers - 1 {
				require.True(t, slots[i].Before(slots[i+1]), "caller %d: %v, the next: %v", i, slots[i], slots[i+1])
			}
			used := 1000 - status(t, l).Available
			assert.GreaterOrEqual(t, used, 1+callers)
			assert.LessOrEqual(t, used, 1+2*callers, "no more than one question was lost")
		})
	}
}
