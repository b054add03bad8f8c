package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/engines"
)

// broken, in the environment, makes the program's fair one that breaks its
// promises in this way.
const broken = "FAIRLIMIT_BENCH_TEST_BROKEN"

func breakFair(way string) {
	if way == "" {
		return
	}
	fair := &engines.All[0]
	open := fair.Open
	fair.Open = func(s engines.Setup) (engines.Acquirer, error) {
		if way == "lets all through" {
			return sloppy{}, nil
		}
		limiter, err := open(s)
		return &slow{Acquirer: limiter, late: 20 * s.Quota.Per}, err
	}
}

// slow makes every other call late, by more than a busy machine does.
type slow struct {
	engines.Acquirer
	late  time.Duration
	calls atomic.Int64
}

func (s *slow) Acquire(ctx context.Context, n int) error {
	err := s.Acquirer.Acquire(ctx, n)
	if err == nil && s.calls.Add(1)%2 == 0 {
		time.Sleep(s.late)
	}
	return err
}

// sloppy knows of no quota.
type sloppy struct{}

func (sloppy) Acquire(context.Context, int) error {
	time.Sleep(20 * time.Millisecond)
	return nil
}

func TestAFairThatIsBrokenOnPurposeIsFoundOut(t *testing.T) {
	t.Parallel()
	for way, missed := range map[string]string{
		"wakes callers late": "inversions",
		"lets all through":   "upstream 429s",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			// A wide guard: a turn that the machine misses excuses those who pass.
			isFoundOut(t, way, func(p *program, one figures) bool {
				return !one.Goal.Met && strings.Contains(p.said(), "fair MISSED its goal: ") &&
					strings.Contains(p.said(), missed)
			}, "-engines", "fair", "-quota", "4/100ms", "-guard", "50ms", "-clients", "4", "-callers", "2")
		})
	}
	t.Run("an engine that overtakes", func(t *testing.T) {
		t.Parallel()
		isFoundOut(t, "", func(_ *program, one figures) bool { return one.Engines[0]["inversions"] != 0.0 },
			"-engines", "window", "-quota", "4/100ms", "-callers", "8")
	})
}

// isFoundOut runs the program until it says what is broken. Order counts from the
// longest stall on: on a machine that stalls, those who overtake by more are
// rarer, and what has to be seen takes longer.
func isFoundOut(t *testing.T, way string, found func(*program, figures) bool, args ...string) {
	t.Helper()
	for _, duration := range []string{"4s", "8s", "16s"} {
		p, all := succeeds(t, []string{broken + "=" + way}, append(args, "-duration", duration)...)
		if found(p, all[0]) {
			return
		}
		t.Log(p.said())
	}
	require.Fail(t, "it was not found out")
}

// succeeds runs the program until nothing goes wrong. Processes that get no
// processor for seconds are the machine's fault: then calls fail, the program
// says so, and has another try.
func succeeds(t *testing.T, env []string, args ...string) (p *program, all []figures) {
	t.Helper()
	for range 5 {
		p = bench(t, append(args, "-json", "-", "-out", "none")...)
		p.Env = append(p.Env, env...)
		if p.status(t, p.Run()) == 0 {
			return p, read(t, p.stdout.Bytes())
		}
		t.Log(p.said())
	}
	require.Fail(t, "something went wrong each time")
	return p, nil
}
