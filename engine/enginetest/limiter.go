package enginetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// What every engine does.
var limiterCases = []testCase{
	{"grants the quota and no more", "Requests are granted whole or not at all. A refusal consumes nothing. The next " +
		"turn comes when the first permits leave the window; without turns ahead it is NotYet.", func(s *subject) {
		e := s.engine(5, long)
		s.granted(e, 3)
		for range 20 {
			s.about(long, s.refused(e, 3))
		}
		s.granted(e, 2)
		require.Equal(s, engine.Refused, s.ask(e, 1, time.Minute).Verdict)
		a, want := s.ask(e, 1, 2*long), engine.NotYet
		if _, is := e.(engine.Queue); is {
			want = engine.Granted
		}
		require.Equal(s, want, a.Verdict)
		s.about(long, a.Wait)
	}},
	{"decides requests in order", "Each as if it came alone. What can never fit is ErrExceedsQuota.", func(s *subject) {
		e := s.engine(4, long)
		require.NoError(s, e.Fits(4, ""))
		first := []engine.Request{{N: 2}, {N: 3}, {N: 5}, {N: 2}}
		answers := s.take(e, append(first, slices.Repeat([]engine.Request{{N: 1}}, engine.MostRequests-4)...)...)
		for i, granted := range []bool{true, false, false, true} {
			require.Equal(s, granted, answers[i].Verdict == engine.Granted, "%d: %+v", i, answers)
		}
		require.ErrorIs(s, answers[2].Err, engine.ErrExceedsQuota)
	}},
	{"what was given back is free", "After Reset it is nobody's any more.", func(s *subject) {
		e := s.engine(5, long)
		s.granted(e, 2)
		turn := s.granted(e, 3)
		for _, free := range []int{3, 5} {
			require.NoError(s, e.GiveBack(s.Context(), []engine.Return{{Turn: turn, N: 3}}))
			s.granted(e, free)
			s.refused(e, 1)
			_, err := e.Reset(s.Context())
			require.NoError(s, err)
		}
	}},
	{"each name is a limiter of its own", "Its keys share a hash slot, or it is ErrUnsupported.", func(s *subject) {
		for i, name := range []string{"%s", "%s ", "{%s", "}%s", "{}%s", "}{%s", "{a}%s}", "%s}b{", "*?[a]\n\x00%s"} {
			for _, prefix := range []string{"", "a:", "{b}"} {
				cfg := s.config(2, long)
				cfg.Name, cfg.Prefix = fmt.Sprintf(name, fmt.Sprint(s.name, "-", i)), &prefix
				e, err := s.build(cfg)
				if err != nil && i > 1 {
					require.ErrorIs(s, err, engine.ErrUnsupported)
					continue
				}
				require.NoError(s, err)
				s.granted(e, 2)
				s.refused(e, 1)
			}
		}
	}},
	{"Status writes nothing", "It says what the next request finds. Reset makes the limiter idle.", func(s *subject) {
		e := s.engine(5, long)
		s.status(e)
		require.Empty(s, s.keys())
		for range 2 {
			require.Equal(s, engine.Status{Available: 5}, s.status(e))
			s.granted(e, 3)
			require.Equal(s, 2, s.status(e).Available)
			s.granted(e, 2)
			before := s.keys()
			require.Zero(s, s.status(e).Available)
			s.about(long, s.status(e).Delay)
			require.Equal(s, before, s.keys())
			news, err := e.Reset(s.Context())
			require.NoError(s, err)
			require.False(s, news.Sent.IsZero() || news.Arrived.Before(news.Sent), "%+v", news)
		}
	}},
	{"what cannot be read is ErrState", "Nothing is granted or changed. Reset clears it.", func(s *subject) {
		e := s.engine(5, long)
		s.granted(e, 1)
		for key := range s.keys() {
			for _, spoil := range [][]any{{"SET", key, "foreign"}, {"RPUSH", key, "foreign"}} {
				require.NoError(s, s.rdb.Del(s.Context(), key).Err())
				require.NoError(s, s.rdb.Do(s.Context(), spoil...).Err())
				before := s.keys()
				_, _, err := e.Take(s.Context(), []engine.Request{{N: 1}})
				require.ErrorIs(s, err, engine.ErrState, spoil)
				_, err = e.Status(s.Context())
				require.ErrorIs(s, err, engine.ErrState, spoil)
				require.Equal(s, before, s.keys(), spoil)
				_, err = e.Reset(s.Context())
				require.NoError(s, err)
				s.granted(e, 1)
			}
		}
	}},
	{"an ended ctx has no effect", "Every method returns its error.", func(s *subject) {
		e := s.engine(5, long)
		turn := s.granted(e, 1)
		before := s.keys()
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		_, _, take := e.Take(ended, []engine.Request{{N: 1}})
		_, status := e.Status(ended)
		_, reset := e.Reset(ended)
		giveBack := e.GiveBack(ended, []engine.Return{{Turn: turn, N: 1}})
		for _, err := range []error{take, status, reset, giveBack} {
			require.ErrorIs(s, err, context.Canceled)
		}
		require.Equal(s, before, s.keys())
	}},
	{"a question is sent once", "If the answer is lost, it is ErrOutcomeUnknown, whatever MaxRetries are. " +
		"Only a script that the server has forgotten is sent again.", func(s *subject) {
		faults, e := redistest.Break(s.rdb), s.engine(10, long)
		s.granted(e, 1)
		require.NoError(s, s.rdb.ScriptFlush(s.Context()).Err())
		s.granted(e, 1)
		faults.Lose(redistest.Cut)
		_, _, err := e.Take(s.Context(), []engine.Request{{N: 1}})
		require.ErrorIs(s, err, engine.ErrOutcomeUnknown)
		require.Equal(s, 7, s.status(e).Available)
	}},
}
