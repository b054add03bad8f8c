package faults_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// overheard keeps the words of every command that a client sends.
type overheard struct {
	mu    sync.Mutex
	words []string
}

func (o *overheard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *overheard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		o.mu.Lock()
		for _, word := range cmd.Args() {
			o.words = append(o.words, fmt.Sprint(word))
		}
		o.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (o *overheard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// count is how often one of the words was sent.
func (o *overheard) count(words ...string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, word := range o.words {
		if slices.Contains(words, strings.ToLower(word)) {
			n++
		}
	}
	return n
}

// allThatCanBeAsked does everything that a limiter can do, and returns the
// waits it was told.
func allThatCanBeAsked(t *testing.T, rdb redis.UniversalClient, e fairlimit.Option) []time.Duration {
	var waits []time.Duration
	l, err := fairlimit.New(rdb, "asked", fairlimit.Every(10*time.Second), e, fairlimit.WithMaxWait(time.Hour))
	require.NoError(t, err)
	start := time.Now()
	for range 3 {
		require.NoError(t, l.Wait(t.Context()))
		waits = append(waits, time.Since(start))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, l.Wait(ctx), context.DeadlineExceeded)
	_, err = l.Allow(t.Context())
	require.NoError(t, err)
	if r, ok := l.(fairlimit.Reserver); ok {
		turn, err := r.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		waits = append(waits, turn.Delay())
		require.NoError(t, turn.Cancel(t.Context()))
	}
	s, err := l.Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Reset(t.Context()))
	return append(waits, s.Delay)
}

// TestAClientsWallClockIsNeverSentAndChangesNothing runs the same calls on
// servers whose clocks are years before and after the client's.
func TestAClientsWallClockIsNeverSentAndChangesNothing(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := map[time.Duration][]time.Duration{}
			for _, ahead := range []time.Duration{-20 * year, -time.Hour, 0, time.Hour, 20 * year} {
				synctest.Test(t, func(t *testing.T) {
					m := redistest.Mini(t)
					heard := &overheard{}
					m.Client.AddHook(heard)
					begin := time.Now()
					keepAhead(t, m, ahead)
					told[ahead] = allThatCanBeAsked(t, m.Client, e)
					if ahead.Abs() >= year {
						// Whatever its unit, it begins with these digits for more than a day.
						clientsTime := regexp.MustCompile(fmt.Sprintf(`\b%d\d{5,}`, begin.Unix()/100_000))
						require.NotEmpty(t, heard.words)
						for _, word := range heard.words {
							require.NotRegexp(t, clientsTime, word)
						}
					}
				})
			}
			for ahead, waits := range told {
				require.Len(t, waits, len(told[0]))
				for i, wait := range waits {
					assert.InDelta(t, told[0][i], wait, float64(2*time.Millisecond),
						"wait %d with a server %v ahead", i, ahead)
				}
			}
		})
	}
}

// keepAhead lets the server's clock run ahead of the client's. Miniredis stops at
// the time that it is given. So it is given another each millisecond.
func keepAhead(t *testing.T, m *redistest.MiniServer, ahead time.Duration) {
	m.SetTime(time.Now().Add(ahead))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-tick:
				m.SetTime(time.Now().Add(ahead))
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}
