package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// monitor counts the commands that a server runs, by the name of their script,
// as MONITOR tells.
type monitor struct {
	conn net.Conn
	done chan struct{}

	mu     sync.Mutex
	counts map[string]int
}

func startMonitor(t *testing.T, addr string) *monitor {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	m := &monitor{conn: conn, done: make(chan struct{}), counts: map[string]int{}}
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	require.NoError(t, err)
	lines := bufio.NewReader(conn)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", first)
	go m.read(lines)
	t.Cleanup(m.end)
	return m
}

func (m *monitor) read(lines *bufio.Reader) {
	defer close(m.done)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Split(line, `"`)
		if len(words) > 3 && strings.EqualFold(words[1], "evalsha") {
			m.mu.Lock()
			m.counts[words[3]]++
			m.mu.Unlock()
		}
	}
}

func (m *monitor) end() {
	_ = m.conn.Close()
	<-m.done
}

func (m *monitor) count(script string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[script]
}

// scriptOf is the name of the script by which something is asked of a queue.
func scriptOf(t *testing.T, ask func(context.Context, engine.Steerer) error) string {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Standalone(t).Options().Addr})
	defer redistest.Close(rdb)
	e, err := fair.New(engine.Config{Client: rdb, Name: redistest.Name(t)})
	require.NoError(t, err)
	heard := &overheard{}
	rdb.AddHook(heard)
	require.NoError(t, ask(t.Context(), e.(engine.Steerer)))
	for i, word := range heard.words {
		if word == "evalsha" {
			return heard.words[i+1]
		}
	}
	t.Fatal("no script was asked for")
	return ""
}

func look(ctx context.Context, queue engine.Steerer) error { return queue.Look(ctx) }

func pauseBriefly(ctx context.Context, queue engine.Steerer) error {
	return queue.Pause(ctx, time.Millisecond)
}

// TestAPauseHoldsThoseWhoSleepInFourProcesses lets 4 processes of 50 callers
// each sleep towards their turns, up to 2.5 s ahead. One of them pauses the
// queue at a random moment. The upstream judges.
func TestAPauseHoldsThoseWhoSleepInFourProcesses(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const (
		processes, callers = 4, 50
		within, guard      = 600 * time.Millisecond, 100 * time.Millisecond
		pause              = 1500 * time.Millisecond
		permits, per       = 40, 500 * time.Millisecond
	)
	server, upstream := redistest.StartServer(t), startUpstream(t)
	scripts := startMonitor(t, server.Addr())
	looking := scriptOf(t, look)
	all := make([]*process, processes)
	for i := range all {
		all[i] = startProcess(t, setup{
			Redis: server.Addr(), Name: t.Name(), Upstream: upstream.url, Who: i, Within: within, Guard: guard,
			Quota: fairlimit.Quota{Permits: permits, Per: per, Burst: 4},
		})
	}
	start := time.Now()
	for _, p := range all {
		p.order("wait %d", callers)
	}
	for _, p := range all {
		require.Equal(t, "ok", p.answer())
	}
	time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
	called := time.Now()
	all[rand.IntN(processes)].does("pause %v", pause)
	recorded := time.Now()

	reports := make([]report, processes)
	var looks, misses int
	var way, slowest time.Duration
	for i, p := range all {
		r := p.report()
		assert.Empty(t, r.Errors)
		assert.Equal(t, callers, r.Went)
		longest := time.Since(start) // which is 4/(3X) questions a second, and one more
		assert.LessOrEqual(t, r.Asked["look"], 1+int(4*longest/(3*within)), "process %d", i)
		looks, misses = looks+r.Asked["look"], misses+r.Misses
		way, slowest = max(way, slices.Max(r.Ways)), max(slowest, r.Slowest)
		reports[i] = r
	}
	log := upstream.calls()
	require.Len(t, log, processes*callers)
	assert.Eventually(t, func() bool { return scripts.count(looking) == looks }, 10*time.Second, time.Millisecond,
		"nobody else reads")
	assert.Positive(t, looks)

	spread := guard/2 + way // from a slot until its call is there, at most
	late := between(log, recorded.Add(within+spread), called.Add(pause))
	t.Logf("paused %v after the start, recorded within %v: %d calls until X after that, %d until its end, %d after; "+
		"%d looks, %d turns missed; a call took up to %v, a question %v", called.Sub(start), recorded.Sub(called),
		between(log, start, recorded.Add(within)), late, between(log, called.Add(pause), called.Add(time.Hour)),
		looks, misses, way, slowest)
	if slowest <= within/4 {
		assert.Zero(t, late, "calls more than X after the pause was recorded")
	}
	assert.GreaterOrEqual(t, between(log, called.Add(pause), called.Add(time.Hour)), callers/2, "it came in time")
	assert.LessOrEqual(t, most(log, per+guard-spread), permits, "in each window")
	wrong := overtaken(log, reports, 0, recorded, recorded.Add(within+spread), spread)
	assert.Zero(t, wrong, "pairs in the wrong order")
}

// TestAStormOfPausesIsAFewScripts has two processes hear of 429s that differ, 30
// times each and all at once. The longest counts.
func TestAStormOfPausesIsAFewScripts(t *testing.T) {
	t.Parallel()
	if serveOrders(t) {
		return
	}
	const within, longest = 100 * time.Millisecond, 2 * time.Second
	server, upstream := redistest.StartServer(t), startUpstream(t)
	pausing := scriptOf(t, pauseBriefly)
	scripts := startMonitor(t, server.Addr())
	quota := fairlimit.Quota{Permits: 20, Per: time.Second, Burst: 1}
	all := make([]*process, 2)
	for i := range all {
		all[i] = startProcess(t, setup{
			Redis: server.Addr(), Name: t.Name(), Upstream: upstream.url, Who: i, Within: within, Quota: quota,
		})
	}
	for _, p := range all {
		p.does("wait 10")
	}
	called := time.Now()
	for _, p := range all {
		p.order("storm %v %v %v", longest/10, longest, longest/6)
	}
	for _, p := range all {
		require.Equal(t, "ok", p.answer())
	}
	told := time.Now()
	left := status(t, named(t, server.Client(), t.Name(), quota, fairlimit.WithPauseWithin(within))).Paused
	assert.LessOrEqual(t, left, longest)
	assert.GreaterOrEqual(t, left, longest-time.Since(called))
	for _, p := range all {
		assert.Empty(t, p.report().Errors)
	}
	log := upstream.calls()
	require.Len(t, log, 20)
	assert.Zero(t, between(log, told, called.Add(longest)))
	assert.Positive(t, between(log, called.Add(longest), called.Add(time.Hour)))
	t.Logf("60 pauses were %d scripts", scripts.count(pausing))
	assert.LessOrEqual(t, scripts.count(pausing), 10)
}

// overtaken counts the pairs of callers of whom one had a turn before the other
// asked, and called after it: in each process that missed turns at no more than
// so many moments, and, if nobody missed any, in all of them. Between two
// moments it counts none of two processes: some have heard of a pause then, and
// others have not.
//
// The last of those who miss turns line up again, behind others of their process
// that stand in line already.
func overtaken(log []arrival, reports []report, waves int, from, to time.Time, spread time.Duration) (pairs int) {
	misses := 0
	for _, r := range reports {
		misses += r.Misses
	}
	excused := func(a, b arrival) bool {
		if a.who == b.who {
			return reports[a.who].Waves > waves
		}
		return misses > 0 || !a.at.Before(from) && a.at.Before(to)
	}
	for i, later := range log {
		for _, earlier := range log[:i] {
			// Earlier arrived first. It should not have asked after later had its turn.
			if later.at.Sub(earlier.at) <= spread {
				continue
			}
			asked := reports[earlier.who].Called[earlier.caller]
			had := reports[later.who].Granted[later.caller]
			if had.Before(asked) && !excused(earlier, later) {
				pairs++
			}
		}
	}
	return pairs
}
