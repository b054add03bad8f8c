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

const long = 10 * time.Minute // a window that does not pass during a case

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

// What an [engine.Queue] does besides.
var queueCases = []testCase{
	{"turns ahead come in order", "Each at the earliest moment. The newest can be given back.", func(s *subject) {
		q := s.queue(2, long)
		s.granted(q, 2)
		for _, periods := range []time.Duration{1, 1, 2} {
			s.ahead(q, 1, periods*long)
		}
		both, last := s.ahead(q, 2, 3*long), s.ahead(q, 1, 4*long)
		require.Greater(s, last.Slot, both.Slot)
		require.Equal(s, 6, s.status(q).Queued)
		s.about(4*long, s.status(q).Delay)
		require.NoError(s, q.GiveBack(s.Context(), []engine.Return{{Turn: last, N: 1}}))
		require.Equal(s, 5, s.status(q).Queued)
		s.ahead(q, 1, 4*long)
	}},
	{"Pause and Resume move all turns", "The longest pause counts. Look tells when a turn comes, and " +
		"writes nothing.", func(s *subject) {
		q := s.queue(1, long)
		s.granted(q, 1)
		turn := s.ahead(q, 1, long)
		comes := func(wait time.Duration) func(engine.News, error) {
			return func(news engine.News, err error) {
				require.NoError(s, err)
				require.True(s, news.Stands(turn))
				s.about(wait, time.Until(news.Comes(turn.Slot)))
			}
		}
		before := s.keys()
		comes(long)(q.Look(s.Context()))
		require.Equal(s, before, s.keys())
		comes(3 * long)(q.Pause(s.Context(), 2*long))
		comes(3 * long)(q.Pause(s.Context(), long))
		s.about(2*long, s.status(q).Paused)
		s.ahead(q, 1, 4*long)
		comes(long)(q.Resume(s.Context()))
		require.Zero(s, s.status(q).Paused)
		s.ahead(q, 1, 3*long)
	}},
	{"Requeue makes void what is ahead", "What has gone counts. Whoever had a turn asks before others. A void turn " +
		"cannot be given back.", func(s *subject) {
		q := s.queue(1, long)
		gone, void := s.granted(q, 1), s.ahead(q, 1, long)
		time.Sleep(time.Millisecond)
		news, err := q.Requeue(s.Context())
		require.NoError(s, err)
		require.True(s, news.Stands(gone) && !news.Stands(void), "%+v", news)
		require.Equal(s, engine.NotYet, s.ask(q, 1, engine.Forever).Verdict)
		again := s.take(q, engine.Request{N: 1, MaxWait: engine.Forever, WasVoid: true})[0]
		require.Equal(s, engine.Granted, again.Verdict)
		s.about(long, again.Wait)
		require.NoError(s, q.GiveBack(s.Context(), []engine.Return{{Turn: void, N: 1}}))
		require.Equal(s, 1, s.status(q).Queued)
		news, err = q.Reset(s.Context())
		require.NoError(s, err)
		require.False(s, news.Stands(again.Turn))
		require.Equal(s, engine.Status{Available: 1}, s.status(q))
	}},
	{"goes by stored quotas", "They hold at once, until they are forgotten.", func(s *subject) {
		cfg, two := s.config(5, long), []engine.Quota{{Permits: 2, Per: long}}
		_, err := s.queue(5, long).LearnQuotas(s.Context(), two, time.Minute)
		require.NoError(s, err)
		_, err = s.queue(5, long).LearnQuotas(s.Context(), []engine.Quota{{Permits: 4, Per: long}}, time.Minute)
		require.NoError(s, err, "it was learned within the minute")
		cfg.Stored = true
		built, err := s.build(cfg)
		require.NoError(s, err)
		q := built.(engine.Queue)
		quotas, stored, err := q.Quotas(s.Context())
		require.NoError(s, err)
		require.True(s, stored)
		require.Equal(s, two, quotas)
		require.NoError(s, q.Fits(3, ""), "others may be stored by then")
		s.granted(q, 2)
		s.refused(q, 1)
		require.ErrorIs(s, s.ask(q, 3, 0).Err, engine.ErrExceedsQuota)
		_, err = q.SetQuotas(s.Context(), nil)
		require.NoError(s, err)
		s.granted(q, 3)
	}},
	{"a flow leaves room for others", "One that holds its share is told NotYet.", func(s *subject) {
		q := s.queue(10, time.Minute)
		greedy, other, held := q.Flow("greedy", 1), q.Flow("other", 1), 0
		for s.ask(greedy, 1, engine.Forever).Verdict == engine.Granted {
			held++
			require.Less(s, held, 50)
		}
		require.Equal(s, engine.NotYet, s.ask(greedy, 1, engine.Forever).Verdict)
		require.Equal(s, engine.Granted, s.ask(other, 1, engine.Forever).Verdict)
	}},
}
