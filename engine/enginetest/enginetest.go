// Package enginetest is the suite that every engine must pass. An engine's own
// test calls [Run] once for each kind of server that the engine is meant for.
package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

// Server calls f with a new client, perhaps several times, each in a subtest. It
// may do so inside a [testing/synctest] bubble.
type Server = func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient))

// Run checks the engine case by case, in parallel. A case that fails prints what
// it is about. Cases for an [engine.Queue] are skipped if the engine is none.
func Run(t *testing.T, build engine.Builder, server Server) {
	t.Helper()
	cases := limiterCases
	if keepsQueue(build) {
		cases = slices.Concat(limiterCases, queueCases)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server(t, func(t *testing.T, rdb redis.UniversalClient) {
				defer func() {
					if t.Failed() {
						t.Log(c.explanation)
					}
				}()
				c.text(&subject{t, build, rdb, fmt.Sprintf("enginetest-%d", rand.Uint64())})
			})
		})
	}
}

// keepsQueue reports whether the engine is an [engine.Queue]. To build one asks
// nothing.
func keepsQueue(build engine.Builder) bool {
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	e, err := build(engine.Config{Client: client, Name: "any", Quota: engine.Quota{Permits: 1, Per: time.Second}})
	_, is := e.(engine.Queue)
	return is && err == nil
}

// testCase is one thing that an engine must do.
type testCase struct {
	name, explanation string
	text              func(*subject)
}

// subject is the engine under test, and the words in which the cases speak of it.
type subject struct {
	*testing.T
	build engine.Builder
	rdb   redis.UniversalClient
	name  string // never used before
}

func (s *subject) config(permits int, per time.Duration) engine.Config {
	quota, noGuard := engine.Quota{Permits: permits, Per: per}, new(time.Duration)
	return engine.Config{Client: s.rdb, Name: s.name, Quota: quota, Guard: noGuard}
}

func (s *subject) engine(permits int, per time.Duration) engine.Engine {
	e, err := s.build(s.config(permits, per))
	require.NoError(s, err)
	return e
}

func (s *subject) queue(permits int, per time.Duration) engine.Queue {
	return s.engine(permits, per).(engine.Queue)
}

func (s *subject) take(e engine.Engine, requests ...engine.Request) []engine.Answer {
	s.Helper()
	answers, _, err := e.Take(s.Context(), requests)
	require.NoError(s, err)
	require.Len(s, answers, len(requests))
	return answers
}

// ask asks for a turn within the wait.
func (s *subject) ask(e engine.Engine, n int, wait time.Duration) engine.Answer {
	s.Helper()
	return s.take(e, engine.Request{N: n, MaxWait: wait})[0]
}

// granted asks for a turn right now, and soon after a Reset once that is allowed.
func (s *subject) granted(e engine.Engine, n int) engine.Turn {
	s.Helper()
	a := s.ask(e, n, 0)
	if a.Verdict == engine.NotYet {
		time.Sleep(a.Wait)
		a = s.ask(e, n, 0)
	}
	require.Equal(s, engine.Granted, a.Verdict, "%+v", a)
	require.Equal(s, n, a.Turn.N)
	return a.Turn
}

// refused asks for a turn right now, and returns for how long there is none.
func (s *subject) refused(e engine.Engine, n int) time.Duration {
	s.Helper()
	a := s.ask(e, n, 0)
	require.True(s, a.Verdict == engine.Refused && a.Err == nil && a.Wait > 0, "%+v", a)
	return a.Wait
}

// ahead asks for a turn whenever it comes, which should be after the wait.
func (s *subject) ahead(q engine.Queue, n int, wait time.Duration) engine.Turn {
	s.Helper()
	a := s.ask(q, n, engine.Forever)
	require.Equal(s, engine.Granted, a.Verdict, "%+v", a)
	s.about(wait, a.Wait)
	return a.Turn
}

// about allows for the time that the case has taken.
func (s *subject) about(want, got time.Duration) {
	s.Helper()
	require.True(s, got <= want+20*time.Millisecond && got > want-time.Minute, "%v, want about %v", got, want)
}

func (s *subject) status(e engine.Engine) engine.Status {
	s.Helper()
	status, err := e.Status(s.Context())
	require.NoError(s, err)
	return status
}

// keys are those with the limiter's name in their own, and what they hold.
func (s *subject) keys() map[string]string {
	ctx, all := s.Context(), map[string]string{}
	node, is := s.rdb.(*redis.Client)
	if !is {
		var err error
		node, err = s.rdb.(*redis.ClusterClient).MasterForKey(ctx, s.name)
		require.NoError(s, err)
	}
	for _, k := range node.Keys(ctx, "*"+s.name+"*").Val() {
		reads := [][]any{{"GET", k}, {"HGETALL", k}, {"LRANGE", k, 0, -1}, {"ZRANGE", k, 0, -1, "WITHSCORES"}}
		for _, read := range reads {
			if v, err := node.Do(ctx, read...).Result(); err == nil {
				all[k] = fmt.Sprint(v)
			}
		}
	}
	return all
}
