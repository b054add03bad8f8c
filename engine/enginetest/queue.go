package enginetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

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
		greedy, other, requests := q.Flow("greedy", 1), q.Flow("other", 1), [100]engine.Request{}
		for i := range requests {
			requests[i] = engine.Request{N: 1, MaxWait: engine.Forever}
		}
		verdicts := map[engine.Verdict]int{}
		for _, a := range s.take(greedy, requests[:]...) {
			verdicts[a.Verdict]++
		}
		require.Greater(s, verdicts[engine.NotYet], 50)
		require.Zero(s, verdicts[engine.Refused])
		require.Equal(s, engine.Granted, s.ask(other, 1, engine.Forever).Verdict)
		require.Equal(s, engine.NotYet, s.ask(greedy, 1, engine.Forever).Verdict)
	}},
}
