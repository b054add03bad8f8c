package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// service is a process that calls again and again for one flow, until it is
// killed or its time is over. It prints each turn.
type service struct {
	Server, Name, Flow string
	Weight, Callers    int
	For                time.Duration

	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	turns []time.Time
}

const (
	serviceOf    = "FAIRLIMIT_TEST_SERVICE"
	serviceQuota = 50 * time.Millisecond
)

// runService is the process itself, if this is one.
func runService(t *testing.T) (isOne bool) {
	text := os.Getenv(serviceOf)
	if text == "" {
		return false
	}
	var s service
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	rdb := redis.NewClient(&redis.Options{Addr: s.Server})
	l := named(t, rdb, s.Name, fairlimit.Every(serviceQuota), fairlimit.WithFlow(s.Flow, s.Weight))
	ctx, stop := context.WithTimeout(t.Context(), s.For)
	defer stop()
	var group sync.WaitGroup
	for range s.Callers {
		group.Go(func() {
			for l.Wait(ctx) == nil {
				fmt.Println("turn")
			}
		})
	}
	group.Wait()
	return true
}

func (s *service) start(t *testing.T) {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	s.cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	s.cmd.Env = append(os.Environ(), serviceOf+"="+string(text))
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if strings.TrimSpace(lines.Text()) == "turn" {
				s.mu.Lock()
				s.turns = append(s.turns, time.Now())
				s.mu.Unlock()
			}
		}
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
}

// between is how many turns it took from one moment to another.
func (s *service) between(from, to time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := func(moment time.Time) int {
		n, _ := slices.BinarySearchFunc(s.turns, moment, time.Time.Compare)
		return n
	}
	return at(to) - at(from)
}

// TestProcessesOfFlowsShareAQueue starts further runs of this binary, each of
// which is a process of one flow with callers that never end. One of them is
// killed.
func TestProcessesOfFlowsShareAQueue(t *testing.T) {
	t.Parallel()
	if runService(t) {
		return
	}
	rdb := redistest.Standalone(t)
	name := redistest.Name(t)
	start := func(flow string, weight, callers int) *service {
		s := &service{
			Server: rdb.Options().Addr, Name: name, Flow: flow, Weight: weight, Callers: callers, For: time.Minute,
		}
		s.start(t)
		return s
	}
	greedy := start("greedy", 1, 50)
	twins := []*service{start("twins", 1, 10), start("twins", 1, 10)}
	heavy := start("heavy", 2, 10)
	all := append([]*service{greedy, heavy}, twins...)
	for _, s := range all {
		require.Eventually(t, func() bool {
			return s.between(time.Time{}, time.Now()) > 2
		}, 20*time.Second, time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // a look-ahead, so that all have their shares

	// Shares are two, two and four permits. A process that the machine holds up
	// misses some, and what it prints takes its time.
	const share, late = 2, 4
	window := 2 * time.Second
	from := time.Now()
	time.Sleep(window)
	to := time.Now()
	due := int(to.Sub(from) / serviceQuota)
	g, h := greedy.between(from, to), heavy.between(from, to)
	w := twins[0].between(from, to) + twins[1].between(from, to)
	t.Logf("in %v of one permit every %v: greedy %d, twins %d, heavy %d", to.Sub(from), serviceQuota, g, w, h)
	assert.InDelta(t, g, w, share+late)
	assert.InDelta(t, 2*g, h, 2*(share+late), "twice as much")
	assert.GreaterOrEqual(t, g+h+w, due*3/4, "and all of it together")

	newer := named(t, rdb, name, fairlimit.Every(serviceQuota), fairlimit.WithFlow("newer", 1))
	began := time.Now()
	require.NoError(t, newer.Wait(t.Context()))
	t.Logf("a new flow waited %v", time.Since(began))
	assert.Less(t, time.Since(began), 20*serviceQuota,
		"eight permits, whatever the others have in line, and a busy machine")

	require.NoError(t, heavy.cmd.Process.Kill())
	<-heavy.ended
	killed := time.Now()
	time.Sleep(8*serviceQuota + time.Second) // what it held passes, and then it is forgotten
	from = time.Now()
	time.Sleep(window / 2)
	to = time.Now()
	due = int(to.Sub(from) / serviceQuota)
	g, w = greedy.between(from, to), twins[0].between(from, to)+twins[1].between(from, to)
	t.Logf("from %v after a kill on: greedy %d, twins %d of %d", from.Sub(killed), g, w, due)
	assert.InDelta(t, g, w, 2*share+late)
	assert.GreaterOrEqual(t, g+w, due*3/4, "the others have what it had")
}
