package faults_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

func (o *overheard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var digits = regexp.MustCompile(`[0-9]{9,}`)

// tells reports whether the word contains the moment: a number that is within a
// day of it, in seconds, milliseconds, microseconds or nanoseconds.
func tells(word string, moment time.Time) bool {
	for _, text := range digits.FindAllString(word, -1) {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		for unit := 1.0; unit <= 1e9; unit *= 1e3 {
			if away := number/unit - float64(moment.Unix()); -86400 < away && away < 86400 {
				return true
			}
		}
	}
	return false
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
		for range 3 {
			turn, err := r.ReserveN(t.Context(), 1)
			require.NoError(t, err)
			waits = append(waits, turn.Delay())
			time.Sleep(time.Second)
			require.NoError(t, turn.Cancel(t.Context()))
		}
	}
	s, err := l.Status(t.Context())
	require.NoError(t, err)
	waits = append(waits, s.Delay)
	require.NoError(t, l.Reset(t.Context()))
	return waits
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
					// Miniredis stops at the time that it is given. So it is
					// given another each millisecond.
					begin := time.Now()
					m.SetTime(begin.Add(ahead))
					ctx, stop := context.WithCancel(t.Context())
					defer synctest.Wait()
					defer stop()
					go func() {
						for ctx.Err() == nil {
							m.SetTime(time.Now().Add(ahead))
							select {
							case <-time.After(time.Millisecond):
							case <-ctx.Done():
							}
						}
					}()
					told[ahead] = allThatCanBeAsked(t, m.Client, e)
					if ahead.Abs() >= year {
						require.NotEmpty(t, heard.words)
						for _, word := range heard.words {
							require.False(t, tells(word, begin), "%.200q tells the client's time", word)
						}
						t.Logf("%v: %d words sent, none of them the client's time", ahead, len(heard.words))
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
			t.Log(told)
		})
	}
}

func TestTellsKnowsAMomentWhenItSeesOne(t *testing.T) {
	now := time.Now()
	for _, word := range []string{
		fmt.Sprint(now.Unix()), fmt.Sprint(now.UnixMilli()), fmt.Sprint(now.UnixMicro()), fmt.Sprint(now.UnixNano()),
		fmt.Sprint("x", now.UnixMicro(), "y"),
	} {
		assert.True(t, tells(word, now.Add(time.Hour)), word)
	}
	for _, word := range []string{
		"", "take", "3600000000", fmt.Sprint(now.AddDate(1, 0, 0).UnixMicro()),
		fmt.Sprint(now.AddDate(-1, 0, 0).Unix()),
	} {
		assert.False(t, tells(word, now), word)
	}
}
