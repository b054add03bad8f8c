package fair

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// The server loses the key, or has an older one.
func TestLosses(t *testing.T) {
	tell(t, []story{
		{"a queue that is gone counts as full for who knows of it", "3/1s 9/10s", "a takes 4, at 100ms, lost, " +
			"a refused within 10.899s, a takes 1 after 10.9s, a takes 1 after 10.9s"},
		{"a queue that was lost goes on", "2/1s", "a takes 5, b takes 3, lost, at 100ms, a takes 1, a stays, " +
			"a stands 5 at 3s, b takes 1, b stands 3 at 4s, a returns :5, b returns :3, b takes 1, b stands 4 at same"},
		{"settling a turn that was lost does nothing", "10/1s; tokens 100/1m", "a takes 1 tokens=10, lost, a asks, " +
			"a settles 0 0 tokens=-90, at 59s, a takes 1 tokens=50 after <=2s"},
		{
			"a lost pause goes on, though the copy that comes back is of this server", "1/1m",
			"moves, a takes 2, kept, at 10s, a pauses 1h, put, a {asks|looks}, b paused ~1h",
		},
		{"what was lost counts in windows of more permits", "1/100ms", // the last at 1.9 s
			"a takes 20, lost, at 50ms, a looks, b has 10/1s, b takes 1, b stands 0 at 2.9s"},
		{"what was lost counts in windows of more permits, beside turns of others", "10/1s", "c has 3/1s, b has 20/1s, " +
			"d has 20/1s, a takes 1, d takes 79, a pauses 2s, lost, {|c takes 1,} a looks, {|d looks,} b takes 10 after >=5.9s"},
		{"what was lost counts in windows of more permits, at an older copy", "10/1s", "b has 20/1s, d has 20/1s, moves, " +
			"a takes 1, kept, at 200ms, moves, d takes 79, a pauses 2s, back, a looks, d looks, b takes 10 after >=5.7s"},
		{
			"what was lost counts as full in the windows of who knows", "100/1s",
			"b has 1/1m, a takes 1x100, lost, b takes 1, at 500ms, a refused within 400ms",
		},
		{"what was lost counts for a longer Per, though who has a shorter one looks first", "6/5s", "b has 5/1s, " +
			"b takes 1, a takes 5, lost, {|b looks}, a looks, lives >=5s, at 3s, b takes 1, a takes 1 after >=2s"},
		{"what was lost counts for a longer Per, though it is counted already", "2/5s", "b has 10/500ms, b takes 1, " +
			"a takes 2, lost, {b looks|a looks}, a looks, lives >=10s"},
		{"turns of who has heard of a reset, and knows of none since, are those of after it", "2/1s", "a takes 1, " +
			"b takes 1, a resets, b looks, at 10ms, a takes 1, lost, b takes 20, " +
			"a takes 1, a stands 2 at >=9s, b looks, b queued >=20"},
		{"what has gone since a lost reset counts, though whoever knows of that holds nothing", "5/3s", "b looks, " +
			"a resets, lost, at 2s, b takes 5 after 0s, at 2.02s, a takes 1 after >=2.9s"},
		{"a lost reset is carried out again, though one has not heard of it", "1/1s", "x takes 1000, b resets, " +
			"{|b takes 1,|a takes 1,} lost, x looks, {b looks|a looks, b looks}, b takes 1 after <=4s"},
		{"a lost reset is carried out again at an old copy, by whom its first answer told of it", "1/1s", "moves, " +
			"x takes 1000, kept, b resets, a takes 1, back, a looks, a takes 1 after <=4s"},
		{
			"a lost reset is told by whoever knows turns that are over", "1/1s",
			"a resets, b looks, lost, b takes 1, lost, at 3s, b takes 5, a takes 1 after 5s",
		},
		{"a lost reset that is carried out again ends a pause", "1/1s", "moves, x pauses 1h, kept, b resets, {|b takes 1,} " +
			"{back|lost, x looks}, b looks, b takes 1 after <=4s"},
		{
			"a lost reset that is carried out again ends what is slow", "stored 100/1s",
			"moves, x takes 200, x sets 1/1s, kept, b resets, b takes 1, b looks, back, b looks, b takes 1 after <=4s, " +
				"b takes 1, b takes 1 after <=6s",
		},
		{"a queue that was over by the quotas of then", "stored 10/1s", "a takes 1, at 800ms, a {looks|asks}, at 1400ms, " +
			"lost, b sets 100/1h, a waits 0s, b waits 0s"},
		{"a queue that ended as the server said", "stored 100/3s", "a takes 1, at 4s, lost, b sets 10/100ms, b takes 1, " +
			"a {pauses 200ms|settles 0 1 calls=0|observes 3}, at 5s, lost, b sets 100/1h, a waits 0s, a heard no loss"},
		{"one whose quotas of long ago had a longer Per", "stored 100/1s", "a takes 1, b sets 10/100ms, at 1s, b takes 1, " +
			"at 2s, b takes 1, at 3s, b takes 1, a {pauses 100ms|settles 0 1 calls=0|observes 3}, at 4s, lost, " +
			"b sets 100/1h, a waits 0s, a heard no loss"},
		{"one that a question made live for a longer Per", "stored", "a begins 100/1h, c sets 10/1s, a takes 20, " +
			"c sets 5/1s, c forgets, a {exceeds 1000|asks}, lives >59m, at 4s, lost, a waits >59m"},
		{"turns of a wider quota, which a limiter knows that took none of them", "stored 1/1s", "a takes 1, b sets 10/1s, " +
			"at 3s, b takes 50, a {pauses 1ms|settles 0 1 calls=0}, stored 1/1s, lost, at 3010ms, a asks, " +
			"b holds 49 in >39s"},
		{"turns of quotas that were forgotten", "stored", "a sets 1/1s, a takes 10, a forgets, lost, {quota,|} " +
			"{a looks|a pauses 1s}, a sets 1/10s, a holds 1 in >=10s, a holds 9 in >=90s"},
		{"what was observed", "stored", "stored 10/1m; tokens 100/1m, a observes 3, a observes 30 tokens, at 1s, lost, " +
			"a available <=3, a tokens <=30 0"},
		{"news of a clock that was set back are no older", "2/1s", "moves, a takes 1, a waited 250ms, " +
			"at -250ms, a takes 1, a takes 1x2 after 1s, lost, a waited 10ms, at {-240ms|-840ms|-1h}, " +
			"a takes 1x2 after >=1980ms"},
		{"one turn, when all before it count no more", "100/1h", "moves, a takes 1x50, at 1s, a takes 1x30, at 2s, " +
			"a takes 1x20, at 1h20s, kept, a takes 1, at 1h21s, back, a available 99, a waits 0s"},
		{"tokens that count for longer than calls", "10/1s; tokens 100/1m", "a takes 1 tokens=100, at 500ms, " +
			"{lost|calls|units lost}, a {looks|pauses 10ms}, at 3s, a tokens 0, a takes 1 tokens=100 after >=56s"},
		{"tokens of a debt, at a copy that has all calls", "10/1s; tokens 100/1m", "moves, a takes 1 tokens=50, kept, " +
			"at 30s, a {settles 0 0 tokens=-50|observes 0 tokens}, back, {|a looks,|a pauses 1ms,} " +
			"at 61s, a takes 1 tokens=100 after >=28s"},
		{"tokens, if others restore the calls", "10/1s; tokens 100/1m", "a takes 1 tokens=100, b pauses 1ms, at 500ms, " +
			"lost, b {looks|pauses 1ms}, {|a asks,|a looks,|a pauses 1ms,} at 3s, a takes 1 tokens=100 after >=56s"},
		{"turns that a limiter knows by a pause, under quotas of others", "10/1m", "c has 20/1m, a takes 10, c pauses 1ms, " +
			"at 1s, lost, c takes 20 after >=58s"},
		{"tokens, once, though two know of them when calls count no more", "10/1s; tokens 100/1m", "a takes 1 tokens=50, " +
			"b takes 1 tokens=10, a asks, b asks, at 3s, lost, a looks, b asks, {a|b|c} tokens 40"},
		{"tokens, in a queue of others without turns", "10/1s; tokens 100/1m", "a takes 1 tokens=100, at 2500ms, lost, " +
			"c {pauses 1ms|pauses 3s|observes 50 tokens}, {|a looks,|a pauses 1ms,} a takes 1 tokens=100 after >=54s"},
		{"tokens, when calls count no more", "10/1s; tokens 100/1m", "a takes 1 tokens=100, at 3s, lost, a looks, " +
			"at 6s, a tokens 0, a takes 1 tokens=100 after >=53s"},
		{"tokens of which nobody knows", "10/1s; tokens 100/1m", "b has 10/1s, a takes 1 tokens=100, b takes 1, " +
			"at 500ms, calls, b looks, units lives >59s"},
		{"what counts for longer than for whoever asks first", "100/1h", "c has 10/1s, {|c takes 1,} a takes 1x90, " +
			"c pauses 1ms, at 5m, lost, c {looks|pauses 1ms|asks}, a takes 1x90 after >=54m"},
		{"a pause, on a server whose clock is behind", "3/10s", "moves, a takes 1, at 1s, a takes 1, kept, at 5s, " +
			"a pauses 3s, at {500ms|2s|4s|5s}, back, {|a looks,} a waits >=2950ms"},
		{"a queue that ended a little sooner than by its limiter's clock", "10/1s; tokens 100/1h", "a takes 1 tokens=40, " +
			"a waited 59m58s, at 3601s, lost, b takes 1, {|a looks,} a takes 1 tokens=40 after <=1s, a heard no loss"},
		{"turns that are given back while the clock is slow", "stored 10/1s", "a takes 20, b sets 1/1s, a looks, b looks, " +
			"at 10ms, a returns 1:, lives >10s, at 3s, a waits 0s, b waits 0s, b heard no loss"},
		{"a turn after these", "stored 10/1s", "a takes 100, b sets 1/1s, a looks, b looks, " +
			"at 10ms, a returns 1:, at 1500ms, a takes 1, lives >20s, at 11s, b waits 0s, b heard no loss"},
		{"lost turns count once in a queue of others, whoever knows them", "10/1s", "a takes 20, b takes 1, c takes 1, " +
			"d takes 1, lost, at 10ms, e takes 1, d takes 1 after 2.99s, c takes 1 after same, b takes 1 after same, " +
			"a takes 1 after same"},
		{"lost turns count there for a longer Per as well", "1/1s", "a has 3/1m, a takes 3, lost, at 10ms, b takes 1, " +
			"a looks, at 5s, c has 3/1m, c takes 1 after >=50s"},
		{"lost turns in a queue of others that is slow", "stored 1/300ms", "a takes 14, lost, at 10ms, b takes {3|14}, " +
			"b sets 1/1s, at 20ms, a misses 1:"},
		{"turns of others are slowed, though lost ones are of a longer Per", "stored 1/5s", "a takes 2, lost, at 10ms, " +
			"b sets 1/50ms, b takes 40, a looks, at 20ms, b sets 1/1s, b keeps 2: 1/1s"},
		{"turns of a copy are slowed, though lost ones are of a longer Per", "stored 1/5s", "moves, a takes 3, kept, " +
			"a takes 5, a sets 1/50ms, at 10ms, back, b takes 20, a looks, at 20ms, b sets {1/40ms, b sets |}1/1s, " +
			"b keeps 1/1s"},
		// Each may be of the windows of either.
		{"lost turns stand among those of others", "stored 1/200ms", "a takes 40, lost, at 10ms, b sets 1/500ms, " +
			"b takes {4|15|60}, at 20ms, {|a looks,} b sets 1/1s, at 40ms, a misses 8:, b keeps 4: 1/1s"},
		{"lost turns stand among those of others in a copy", "stored 1/200ms", "moves, a takes 1, kept, a takes 40, " +
			"at 10ms, back, b sets 1/500ms, b takes {4|15|60}, at 20ms, {|a looks,} b sets 1/1s, at 40ms, " +
			"a keeps 8: 1/999ms, b keeps 4: 1/1s"},
		{"turns of others in a copy stand where the lost queue was slow", "stored 1/100ms", "moves, a takes 5, kept, " +
			"a takes 15, a sets 1/1s, a looks, at 10ms, back, b sets 1/50ms, b takes {4|8|14|30}, at 20ms, a looks, " +
			"at 30ms, b sets 1/1s, b keeps 2: 1/999ms"},
		{"what was lost counts for whoever is allowed more", "100/1m", "b has 10/1m, b takes 1, a takes 1x99, at 1s, " +
			"b refused, a refused, lost, b refused, a refused 90"},
		// The limiter that asks first after the second loss was told of the queue before
		// the first. As many are granted then as b was told.
		{"what a second loss took counts again", "10/1m", "a takes 5, b takes 1, at 1s, lost, b takes 10, at 2s, lost, " +
			"a takes 10, a returns 5:, a takes 10, a returns 15:, a takes 10, a returns 25:, b refused 10 within 100s"},
		{
			"a return of what the state does not know frees nothing", "1/1s",
			"b has 1/10s, a takes 1, kept, a takes 3, put, b takes 1, c returns a 2, b queued 1",
		},

		{
			"a queue that ended is not restored: its time was over", "1/1m",
			"a takes 2, at 2m, lost, a asks, gone, a granted",
		},
		{
			"a queue that ended is not restored: by this process's clock, though not by the server's", "1/50ms",
			"a takes 2, a waited 101ms, at -1h, lost, a granted",
		},
		// The limiter hears of the clock of those who began another one.
		{"a queue that ended is not restored: though a new one is slow", "stored", "a sets 1/100ms, a takes 1, at 1m, " +
			"a waited 1m, lost, b takes 3, a sets 1/2s, a heard no loss, a waits 6s"},
		{
			"a queue that ended is not restored: another gave everything back", "1/1m",
			"a takes 5, b returns a unused, lives >=5m, b granted, at 1m, a granted",
		},
		{"a queue that ended is not restored: another reset it", "1/1m", "a takes 5, b resets, a granted, a takes 4, " +
			"a returns :5, a waits 5m, b takes 5, a resets, a resets, b granted"},
		{
			"a queue that ended is not restored: a stranger reset it when it was gone", "1/1m",
			"a takes 5, b takes 5, lost, a refused, c resets, a granted, b waits 1m",
		},
		{"a lost reset stays one, whoever asks first", "1/1s", "b takes 9, a takes 1, at 100ms, a resets, at 150ms, " +
			"a takes 9, lost, at 200ms, {a looks, b looks|b looks, a looks, b looks}, b heard void 0, a heard valid 1, " +
			"b takes 1 after >=8.9s"},

		{"a queue that others have begun counts what each limiter knows once", "10/1s", "b takes 5, a takes 10, " +
			"at 100ms, lost, c takes 40, b takes 1, a takes 1, c takes 1, b takes 8, a takes 8, c takes 8, b takes 8, " +
			"a takes 8, c waits <11s, c stays, c queued >=75"},
		{
			"turns of a queue that others have begun can be given back after it counted what was lost", "2/1s",
			"c takes 3, a takes 6, at 100ms, lost, b takes 40, at 300ms, c takes 1, at 400ms, a takes 1, at 500ms, " +
				"b queued >40, b returns 4:, b queued <10, b waits <20.9s",
		},

		{"a pause that was lost goes on: with the whole queue", "1/1s", "a takes 3, a pauses 10s, at 4s, lost, " +
			"a waits 8.999999s, a heard loss, b paused 6s, at 10s, a paused 0s, b waits 2.999999s"},
		{
			"a pause that was lost goes on: and nothing else", "1/1s",
			"a pauses 10s, at 4s, lost, a takes 1 after 6s, a heard no loss",
		},
		{"a lost queue comes no later on the clock of another, though its own had been set back", "1/1s", "a takes 1, " +
			"at -1h, a takes 3, lost, {a looks|c takes 1}, a takes 1 after <=10s, c takes 1 after <=20s"},
		{
			"a pause that was lost goes on: though a stranger has begun anew", "1/1s",
			"a pauses 10s, at 4s, lost, b takes 1 after 0s, a takes 1 after 6.999999s, b paused 6s",
		},
		{"a pause that was lost goes on: in a failover", "1/1s", "a takes 3, kept, at 500ms, a pauses 10s, at 4s, back, " +
			"a waits 8.999999s, a heard no loss, a asks, a heard 1 in 6.999999s, a takes 1, a stays"},
		{"a pause that was lost goes on: in a failover, with turns", "1/1s", "a takes 1, kept, at 500ms, a pauses 10s, " +
			"a takes 1, at 4s, back, a takes 1, a stands 2 at 2s, a stays, a returns 1, a queued 1"},
		{"a lost pause puts off the turns of all, whoever asks first", "1/1s", "a takes 1, b takes 1, a takes 1, " +
			"b takes 1, a takes 1, at 1.2s, a pauses 3s, at 1.5s, lost, at 1.6s, {a looks, b looks|b looks, a looks}, " +
			"a apart >=1s, b apart >=1s, a holds 2 in ~5.4s, b holds a 2 in same"},

		// A queue that is gone is restored as one of the quotas that held.
		{
			"SetQuotas restores what it then narrows", "stored 1/1s",
			"a takes 11, {|lost, quota lost}, a sets 1/4s, a heard 10 in 40s, b takes 1 after 44s",
		},
		// The quotas that hold from now on do not say how long others have to wait.
		{"SetQuotas restores for limiters that keep their own", "{stored |}2/1m", "a takes 2, lost, a sets 5/1s, " +
			"b has 2/1m, b refused within 59.999s, lives >59s, c begins 2/1m, c waits <=1s"},
		// Who stores narrower quotas knows nothing of the turns that were lost.
		{"lost turns come as far apart as quotas that were stored since", "stored 1/1s", "a takes 10, lost, at 1s, " +
			"b sets 1/5s, {a looks|a asks, a looks}, a heard 9 in 40s, a takes 1 after 45s"},
		// Nobody knows of the quotas or of the turns, and wider ones hold until
		// somebody asks who does.
		{"turns that were slowed before are not slowed once more", "stored", "a sets 1/1s, a takes 2, a sets 1/100s, " +
			"lost, quota lost, b begins 3/1s, b takes 1, {a asks|a looks}, b asks, a waits <=201s, b waits <=201s"},
		{"a slow queue that was lost goes on slowly, and is not paused", "stored 1/1s", "a takes 21, a sets 1/5s, " +
			"at 52.5s, a takes 1, a heard 20 in 47.5s, lost, at 1m, a paused 0s, a holds 20 in ~40s, a holds 13 in ~5s"},
	})
}

// What is missing may be others' permits, who keep another pace.
func TestWhatAnOlderStateLacksIsNotSpreadByThePaceOfWhoeverCallsNext(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		a, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second}, engine.Quota{Permits: 50, Per: time.Minute})
		b := a.joins(t, engine.Quota{Permits: 40, Per: time.Second})
		queued(t, a, 1, 1)
		before := snap(t, a)
		at(10 * time.Second)
		queued(t, b, 40, 1)
		granted := 40
		for s := 12; s < 70; s++ {
			at(time.Duration(s) * time.Second)
			if s == 20 {
				before.restore(t, a)
			}
			if take(t, a, engine.Request{N: 1})[0].Granted {
				granted++
			}
		}
		require.LessOrEqual(t, granted, 50, "in a minute")
	})
}

func TestAResetEndsAStateOfAnyAge(t *testing.T) {
	t.Parallel()
	w := realWorld(t)
	f, _ := w.queue(t, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, w.rdb.Do(t.Context(), "set", f.key, "x", "px", 9_000_000_000_000_000).Err())
	require.NoError(t, f.Reset(t.Context()))
	require.True(t, take(t, f, engine.Request{N: 1})[0].Granted)
}

// Whatever a limiter asks restores what it knows, whether it goes by stored quotas
// or by its own.
func TestQuestionsRestore(t *testing.T) {
	const all = "a refused within -1us|a asks|a looks|a sets 2/1m|a forgets"
	var stories []story
	for queue, ask := range map[string]string{"2/1m": "{" + all + "}", "stored 2/1m": "{a reads|" + all + "}"} {
		stories = append(stories,
			story{"a queue that is gone", queue, "a takes 3, lost, quota lost, " + ask + ", a heard loss, b has 2/1m, " +
				"b refused within 119.999s, c begins 2/1m, c refused within 119.999s, a takes 1 after 2m"},
			story{"what an older state lacks", queue, "a takes 1, kept, a takes 1, back, " + ask + ", b has 2/1m, b refused, " +
				"a takes 1 after 1m"},
			story{"nothing that another has reset", queue, "a takes 3, b has 2/1m, b resets, " + ask + ", b granted 2"},
			story{"nothing that it has reset, if that is lost", queue, "a takes 1, a resets, lost, " + ask + ", gone"})
	}
	tell(t, stories)
}

// The labels of the lost queue are behind those of the stranger's. Its turns go as
// they were told, or are missed.
func TestLostTurnsCountInAPauseOfAStranger(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, lasts := range []time.Duration{0, 4500 * time.Millisecond, 9 * time.Second} { // none, some or all are missed
			a, at := w.queue(t, quotas(t, "1/1s")...)
			stranger := a.joins(t, a.quotas...)
			pause(t, a, 20*time.Second)
			at(20 * time.Second)
			queued(t, a, 6, 1)
			require.NoError(t, w.rdb.Del(t.Context(), a.key).Err())
			queued(t, stranger, 1, 1)
			pause(t, stranger, lasts)
			require.NoError(t, a.Look(t.Context()))
			want := max(5*time.Second, lasts) + time.Second
			require.InDelta(t, want, wait(t, a), float64(time.Millisecond), "the next turn")
		}
	})
}

// The pause that was told last counts, even if the replies arrive the other way
// round.
func TestALongerPauseIsNotForgottenForAShorterOne(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		pause(t, f, 10*time.Second)
		early, told := f.memory.watermark, f.memory.news
		pause(t, f, time.Minute)
		f.memory.learn(early, told, f.quotaSet) // arrives late
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(time.Second)
		require.Equal(t, 59*time.Second, status(t, f).Paused)
	})
}

// The turns that were told last count, even if an answer from before arrives later.
func TestAnOlderAnswerTellsNoEarlierEnd(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.queue(t, engine.Quota{Permits: 1, Per: time.Second})
		queued(t, f, 1, 1)
		pause(t, f, 3*time.Second)
		r, err := f.askUnder(t.Context(), f.scripts.look, f.held(), f.args(f.held(), 1))
		require.NoError(t, err)
		queued(t, f, 2, 1)
		require.NoError(t, f.hear(r, f.held())) // arrives late
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(4500 * time.Millisecond)
		require.InDelta(t, 1500*time.Millisecond, wait(t, f), float64(time.Millisecond))
	})
}

// copied is a queue of 100/1m at 30 s, and the copy of it from when it had 40
// turns.
func (w world) copied(t *testing.T) (f *fair, at func(time.Duration), kept snapshot) {
	f, at = w.queue(t, engine.Quota{Permits: 100, Per: time.Minute})
	moves(t, f)
	queued(t, f, 40, 1)
	kept = snap(t, f)
	at(30 * time.Second)
	return f, at, kept
}

// Two questions are under way in a failover. The primary of before answers the
// turns, and the next one, which has not heard of them, a look.
func TestNewsOfACopyTellNoEndOfWhatItLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at, kept := w.copied(t)
		look, sent := f.args(f.held(), 1), time.Now()
		queued(t, f, 59, 1)
		kept.restore(t, f)
		r, err := f.askUnder(t.Context(), f.scripts.look, f.held(), look)
		require.NoError(t, err)
		r.sent = sent
		require.NoError(t, f.hear(r, f.held()))
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		at(61 * time.Second)
		require.Greater(t, take(t, f, engine.Request{N: 60, MaxWait: engine.Forever})[0].Wait, 28*time.Second)
	})
}

// The same in the other order: the copy answers a pause, and that comes first.
func TestNewsOfAPauseTellNoEndOfWhatACopyLost(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at, kept := w.copied(t)
		turns := []engine.Request{{N: 59, MaxWait: engine.Forever}}
		pause := append(f.args(f.held(), 2), ceilMicroseconds(10*time.Second))
		take, logs, _ := f.takeArgs(f.held(), turns)
		granted, err := f.askUnder(t.Context(), f.scripts.take, f.held(), take, logs...)
		require.NoError(t, err)
		kept.restore(t, f)
		at(30*time.Second + time.Millisecond)
		paused, err := f.askUnder(t.Context(), f.scripts.pause, f.held(), pause)
		require.NoError(t, err)
		paused.sent = granted.sent
		require.NoError(t, f.learnTold(paused, f.held()))
		_, err = f.read(granted, f.held(), turns)
		require.NoError(t, err)
		status(t, f)
		f.memory.mu.Lock()
		defer f.memory.mu.Unlock()
		require.Greater(t, f.memory.news.Until(f.memory.ends(f.held())), 69*time.Second, "the pause, and a minute")
	})
}

func TestAResetForgetsNothingThatWasGrantedAfterIt(t *testing.T) {
	t.Parallel()
	rdb := redistest.Standalone(t)
	f := build(t, rdb, engine.Quota{Permits: 2, Per: time.Hour})
	require.NoError(t, f.Reset(t.Context()), "teaches the server the script")
	resets := true
	rdb.AddHook(redistest.Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if resets && cmd.Name() == "evalsha" && err == nil { // answered, and the answer has not arrived
			resets = false
			queued(t, f, 2, 1)
		}
		return err
	}))
	require.NoError(t, f.Reset(t.Context()))
	require.NoError(t, rdb.Del(t.Context(), f.key).Err())
	require.False(t, take(t, f, engine.Request{N: 1})[0].Granted)
}
