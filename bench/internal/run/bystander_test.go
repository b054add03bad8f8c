package run

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/bench/internal/measure"
)

func TestASleepThatEndsLateIsAStall(t *testing.T) {
	// The clock jumps ahead by a second at every look, as it seems to do to a
	// process that stands still for so long.
	var looks atomic.Int64
	b := Watch(func() time.Duration { return time.Duration(looks.Add(1)) * time.Second }, 1, nil)
	for looks.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	seen := b.Close()
	require.NotEmpty(t, seen)
	for _, s := range seen {
		require.Greater(t, s.To-s.From, 900*time.Millisecond)
	}
}

func TestAClockThatStandsStillShowsNoStall(t *testing.T) {
	var looks atomic.Int64
	b := Watch(func() time.Duration { looks.Add(1); return 0 }, 1, nil)
	for looks.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	require.Empty(t, b.Close())
}

func TestAnAnswerThatComesLateIsAStall(t *testing.T) {
	var moment atomic.Int64
	now := func() time.Duration { return time.Duration(moment.Load()) }
	pings := 0
	third := make(chan struct{})
	b := Watch(now, 1, func(ctx context.Context) {
		switch pings++; pings {
		case 1:
			moment.Add(int64(time.Millisecond)) // as ever
		case 2:
			moment.Add(int64(time.Second))
		case 3:
			close(third)
			<-ctx.Done() // it does not answer any more
			moment.Add(int64(time.Minute))
		}
	})
	<-third
	require.Equal(t, []measure.Stall{
		{From: time.Millisecond, To: time.Second + time.Millisecond},
		{From: time.Second + time.Millisecond, To: time.Minute + time.Second + time.Millisecond},
	}, b.Close())
}
