package fair

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// story is what happens to one queue, step by step. Its limiters are a, b and so
// on. They have the queue's quotas, unless the story says what they have; if the
// queue is "stored", they look for stored quotas. Each of {one|another} is a story
// of its own. The words of a step are those of the verbs and of the events below.
// A turn is named by its limiter and its number, from 0 on: "a holds 2 in 40s".
//
// A wanted value is that value, or up to a millisecond off (~), or a bound, or two;
// "same" is the one before.
type story struct{ what, queue, steps string }

func tell(t *testing.T, stories []story) {
	inBothWorlds(t, func(t *testing.T, w world) {
		for _, s := range stories {
			for i, queue := range versions(s.queue) {
				for j, steps := range versions(s.steps) {
					t.Run(fmt.Sprint(s.what, ",", i, ",", j), func(t *testing.T) { w.play(t, queue, steps) })
				}
			}
		}
	})
}

// versions takes one after the other of all that is in braces.
func versions(text string) (all []string) {
	before, rest, isOne := strings.Cut(text, "{")
	if !isOne {
		return []string{text}
	}
	inside, after, _ := strings.Cut(rest, "}")
	for one := range strings.SplitSeq(inside, "|") {
		for _, end := range versions(after) {
			all = append(all, before+one+end)
		}
	}
	return all
}

// play is one that is played.
type play struct {
	*testing.T
	w        world
	queue    *fair
	at       func(time.Duration)
	limiters map[string]*fair
	held     map[string][]engine.Grant
	news     map[string]*[]engine.News
	kept     snapshot
	before   time.Duration // that was compared
	step     string
}

func (w world) play(t *testing.T, queue, steps string) {
	p := &play{
		T: t, w: w, limiters: map[string]*fair{},
		held: map[string][]engine.Grant{}, news: map[string]*[]engine.News{},
	}
	given, isStored := strings.CutPrefix(queue, "stored")
	p.queue, p.at = w.queue(t, quotas(t, "1/1s")...)
	if isStored {
		p.queue = p.queue.looksFor(t, quotas(t, given)...)
	} else {
		p.queue = p.has(queue)
	}
	for step := range strings.SplitSeq(steps, ",") {
		p.step = strings.TrimSpace(step)
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		if event := events[words[0]]; event != nil {
			event(p, words[1:])
			continue
		}
		verb := verbs[words[1]]
		require.NotNil(t, verb, step)
		verb(p, actor{words[0], p.limiter(words[0])}, words[2:])
	}
}

// limiter is the one of a name.
func (p *play) limiter(name string) *fair {
	if p.limiters[name] == nil {
		if p.queue.stored {
			p.enters(name, p.queue.looksFor(p, p.queue.quotas...))
		} else {
			p.enters(name, p.has(quotatext.FormatUnits(p.queue.quotas, p.queue.unitsOf)))
		}
	}
	return p.limiters[name]
}

// has is a limiter with quotas of its own.
func (p *play) has(text string) *fair {
	all, units, err := quotatext.ParseAll(text)
	require.NoError(p, err)
	return p.queue.joinsAs(p, all, units...)
}

func (p *play) enters(name string, f *fair) {
	p.limiters[name], p.news[name] = f, hears(f)
}

// is compares with what is wanted.
func (p *play) is(got float64, wants []string, read func(string) float64) {
	p.Helper()
	require.NotEmpty(p, wants, p.step)
	for _, want := range wants {
		bound := strings.TrimLeft(want, "<>=~")
		n := read(bound)
		switch strings.TrimSuffix(want, bound) {
		case "":
			require.Equal(p, n, got, p.step)
		case "~":
			require.InDelta(p, n, got, float64(time.Millisecond), p.step)
		case "<":
			require.Less(p, got, n, p.step)
		case "<=":
			require.LessOrEqual(p, got, n, p.step)
		case ">":
			require.Greater(p, got, n, p.step)
		case ">=":
			require.GreaterOrEqual(p, got, n, p.step)
		default:
			require.Fail(p, "not a bound", p.step)
		}
	}
}

func (p *play) lasts(got time.Duration, wants ...string) {
	p.Helper()
	p.is(float64(got), wants, func(s string) float64 {
		if s == "same" {
			return float64(p.before)
		}
		return float64(p.span(s))
	})
	p.before = got
}

func (p *play) counts(got int, wants ...string) {
	p.Helper()
	p.is(float64(got), wants, func(s string) float64 { return float64(p.number(s)) })
}

func (p *play) span(word string) time.Duration {
	d, err := time.ParseDuration(word)
	require.NoError(p, err, p.step)
	return d
}

func (p *play) number(word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(p, err, p.step)
	return n
}

// turns are those that words name: of whom, unless it is the actor, and which.
func (p *play) turns(who string, words []string) (turns []engine.Grant, rest []string) {
	if len(words) > 0 && p.limiters[words[0]] != nil {
		who, words = words[0], words[1:]
	}
	all := p.held[who]
	if len(words) == 0 {
		return all, nil
	}
	from, to, isRange := strings.Cut(words[0], ":")
	switch {
	case !isRange && strings.Trim(from, "0123456789") != "":
		return all, words
	case !isRange:
		return all[p.number(from):][:1], words[1:]
	case to != "":
		all = all[:p.number(to)]
	}
	if from != "" {
		all = all[p.number(from):]
	}
	return all, words[1:]
}

// events are what happens to the server.
var events = map[string]func(p *play, words []string){
	"at":    func(p *play, words []string) { p.at(p.span(words[0])) },
	"lost":  func(p *play, _ []string) { p.deletes(p.queue.key, p.queue.unitsKey()) },
	"calls": func(p *play, _ []string) { p.deletes(p.queue.key) }, // lost
	"units": func(p *play, words []string) { // lost, or live so long
		if words[0] == "lost" {
			p.deletes(p.queue.unitsKey())
		} else {
			p.lasts(p.w.ttl(p, p.queue.unitsKey()), words[1:]...)
		}
	},
	"quota": func(p *play, _ []string) { p.deletes(p.queue.quotaKey()) }, // lost
	"stored": func(p *play, words []string) { // quotas, by hand
		require.NoError(p, p.w.rdb.Set(p.Context(), p.queue.quotaKey(), strings.Join(words, " "), 0).Err())
	},
	"kept": func(p *play, words []string) { // a copy of the state
		if p.kept = snap(p, p.queue); len(words) > 0 { // long
			p.kept.left = 1000 * time.Hour
		}
	},
	"put":      func(p *play, _ []string) { p.kept.put(p, p.queue) },     // the copy comes back
	"back":     func(p *play, _ []string) { p.kept.restore(p, p.queue) }, // with another server
	"moves":    func(p *play, _ []string) { moves(p, p.queue) },          // to another server
	"promoted": func(p *play, _ []string) { promotes(p, p.queue) },       // the server, anew
	"lives":    func(p *play, words []string) { p.lasts(p.w.ttl(p, p.queue.key), words...) },
	"gone": func(p *play, _ []string) {
		require.Zero(p, p.w.rdb.Exists(p.Context(), p.queue.key).Val(), p.step)
	},
	"mark": func(p *play, words []string) { // of the state
		require.Equal(p, words[0], p.w.rdb.Get(p.Context(), p.queue.key).Val()[len(p.queue.head):][:1], p.step)
	},
}

func (p *play) deletes(keys ...string) { require.NoError(p, p.w.rdb.Del(p.Context(), keys...).Err()) }

// actor is a limiter that does something.
type actor struct {
	name string
	*fair
}

// verbs are what limiters do, and what is required of them.
var verbs = map[string]func(p *play, a actor, words []string){
	"has":   func(p *play, a actor, words []string) { p.enters(a.name, p.has(strings.Join(words, " "))) },
	"looks": func(p *play, a actor, _ []string) { require.NoError(p, a.Look(p.Context()), p.step) },
	"begins": func(p *play, a actor, words []string) { // a process that looks for stored quotas
		p.enters(a.name, p.queue.looksFor(p, quotas(p, strings.Join(words, " "))...))
	},
	"asks":    func(p *play, a actor, _ []string) { status(p, a.fair) },
	"resets":  func(p *play, a actor, _ []string) { require.NoError(p, a.Reset(p.Context())) },
	"pauses":  func(p *play, a actor, words []string) { pause(p, a.fair, p.span(words[0])) },
	"sets":    func(p *play, a actor, words []string) { set(p, a.fair, strings.Join(words, " ")) },
	"forgets": func(p *play, a actor, _ []string) { require.NoError(p, a.SetQuotas(p.Context(), nil)) },
	"reads": func(p *play, a actor, _ []string) { // the quotas
		_, _, err := a.Quotas(p.Context())
		require.NoError(p, err)
	},
	"waited": func(p *play, a actor, words []string) { // by its own clock
		a.memory.news.Arrived = a.memory.news.Arrived.Add(-p.span(words[0]))
	},
	"takes":   takes,
	"refused": func(p *play, a actor, words []string) { require.False(p, p.grants(a, words), p.step) },
	"granted": func(p *play, a actor, words []string) { require.True(p, p.grants(a, words), p.step) },
	"returns": func(p *play, a actor, words []string) {
		turns, rest := p.turns(a.name, words)
		turns = slices.Clone(turns)
		for i := range turns {
			turns[i].Unused = slices.Contains(rest, "unused")
		}
		giveBack(p, a.fair, turns...)
	},
	"observes": func(p *play, a actor, words []string) { // so many are left, of calls or of a unit
		require.NoError(p, a.Observe(p.Context(), strings.Join(words[1:], ""), p.number(words[0])))
	},
	"exceeds": func(p *play, a actor, words []string) { // a quota, by a request for so many
		answer := take(p, a.fair, engine.Request{N: p.number(words[0]), MaxWait: engine.Forever})[0]
		require.ErrorIs(p, answer.Err, engine.ErrExceedsQuota, p.step)
	},
	"settles": func(p *play, a actor, words []string) { // a turn: so many calls and units it did not use
		settles(p, a.fair, p.held[a.name][p.number(words[0])], p.number(words[1]), engine.Amounts(words[2]))
	},
	"waits":     func(p *play, a actor, words []string) { p.lasts(wait(p, a.fair), words...) },
	"paused":    func(p *play, a actor, words []string) { p.lasts(status(p, a.fair).Paused, words...) },
	"queued":    func(p *play, a actor, words []string) { p.counts(status(p, a.fair).Queued, words...) },
	"available": func(p *play, a actor, words []string) { p.counts(status(p, a.fair).Available, words...) },
	"backlog":   func(p *play, a actor, words []string) { p.counts(int(inspected(p, a.fair).Backlog), words...) },
	"tokens":    func(p *play, a actor, words []string) { p.isLeft(a, "tokens", words) },
	"points":    func(p *play, a actor, words []string) { p.isLeft(a, "points", words) },
	"stands": func(p *play, a actor, words []string) { // a slot of a turn
		turns, _ := p.turns(a.name, words)
		p.lasts(microseconds(turns[0].At-beginning.UnixMicro()), words[2:]...)
	},
	"holds": func(p *play, a actor, words []string) { // looks: a turn comes in
		turns, wants := p.turns(a.name, words)
		p.lasts(dues(p, a.fair, turns)[0], wants[1:]...)
	},
	"awaits": func(p *play, a actor, words []string) { // a turn whose slot the clock has not passed
		turns, _ := p.turns(a.name, words)
		require.NoError(p, a.Look(p.Context()))
		require.GreaterOrEqual(p, turns[0].At, last(p, p.news[a.name]).Clock, p.step)
	},
	"heard": heard,
	"keeps": func(p *play, a actor, words []string) { // a quota, by when turns come
		turns, rest := p.turns(a.name, words)
		q := quotas(p, rest[0])[0]
		var comes []model.Turn
		for _, due := range dues(p, a.fair, turns) {
			comes = append(comes, model.Turn{Slot: due.Microseconds(), N: 1})
		}
		require.NoError(p, model.Strict(model.Windows(q.Permits, q.Per.Microseconds(), 0), comes), p.step)
	},
	"misses": func(p *play, a actor, words []string) { // lost turns: the clock of others is slow then
		turns, _ := p.turns(a.name, words)
		require.NoError(p, a.Look(p.Context()))
		n := last(p, p.news[a.name])
		for _, g := range turns {
			require.NotEqual(p, n.Queue, g.ID, p.step)
			require.Greater(p, n.Until(n.SlowUntil()), microseconds(g.At-n.Server), p.step)
			require.True(p, slices.ContainsFunc(n.Slow, engine.Stretch.IsSlow), p.step)
		}
	},
	"apart": func(p *play, a actor, words []string) { // how far the turns are of all that lie ahead
		require.NoError(p, a.Look(p.Context()))
		n, due := last(p, p.news[a.name]), []time.Duration{}
		for _, g := range slices.Concat(slices.Collect(maps.Values(p.held))...) {
			if g.At > n.Clock {
				due = append(due, n.Until(g.At))
			}
		}
		slices.Sort(due)
		for i := range due[1:] {
			p.lasts(due[i+1]-due[i], words...)
		}
	},
	"stays": func(p *play, a actor, words []string) { // all turns are of one queue
		for _, g := range p.held[a.name] {
			require.Equal(p, p.held[a.name][0].ID, g.ID, p.step)
		}
	},
	"knows": func(p *play, a actor, words []string) { // what another one does
		require.Equal(p, p.limiters[words[0]].memory.now().text, a.memory.now().text, p.step)
	},
	"hears": func(p *play, a actor, words []string) { // what another one was told
		told := &p.limiters[words[0]].memory
		a.memory.learn(told.watermark, told.news, a.quotaSet)
	},
	"owns": func(p *play, a actor, _ []string) { // the queue is of its windows
		require.True(p, strings.HasPrefix(p.w.rdb.Get(p.Context(), p.queue.key).Val(), a.head), p.step)
	},
	"obeys": func(p *play, a actor, words []string) { holds(p, a.fair, strings.Join(words, " "), true) },
}

// isLeft compares how much of a unit is available, and how much is queued.
func (p *play) isLeft(a actor, unit string, words []string) {
	left := status(p, a.fair).Units[unit]
	p.counts(left.Available, words[0])
	if len(words) > 1 {
		p.counts(left.Queued, words[1])
	}
}

// takes is "a takes 3": three turns of one; "3x5": three of five; "1 tokens=60":
// one of a call and tokens. "after 4s" tells how long the last one waits.
func takes(p *play, a actor, words []string) {
	count, size, isSize := strings.Cut(words[0], "x")
	r := engine.Request{N: 1, MaxWait: engine.Forever}
	if isSize {
		r.N = p.number(size)
	}
	rest, requests := words[1:], p.number(count)
	if len(rest) > 0 && strings.Contains(rest[0], "=") {
		r.N, r.Amounts, rest, requests = requests, engine.Amounts(rest[0]), rest[1:], 1
	}
	answers := take(p, a.fair, slices.Repeat([]engine.Request{r}, requests)...)
	for _, answer := range answers {
		require.True(p, answer.Granted, p.step)
		p.held[a.name] = append(p.held[a.name], answer.Grant)
	}
	if len(rest) > 0 {
		p.lasts(answers[len(answers)-1].Wait, rest[1:]...)
	}
}

// grants asks for so many permits, one if none are named, within a wait.
func (p *play) grants(a actor, words []string) bool {
	r := engine.Request{N: 1}
	if len(words) > 0 && words[0] != "within" {
		r.N, words = p.number(words[0]), words[1:]
	}
	if len(words) > 0 {
		r.MaxWait = p.span(words[1])
	}
	answer := take(p, a.fair, r)[0]
	require.NoError(p, answer.Err, p.step)
	return answer.Granted
}

// heard is what the last news said: "a heard loss", "no loss", "reset", or "2
// in 4s".
func heard(p *play, a actor, words []string) {
	all := *p.news[a.name]
	require.NotEmpty(p, all, p.step)
	n := all[len(all)-1]
	switch words[0] {
	case "loss", "no":
		lost := slices.ContainsFunc(all, func(n engine.News) bool { return n.Lost })
		require.Equal(p, words[0] == "loss", lost, p.step)
	case "reset":
		require.True(p, n.Reset, p.step)
	case "void", "valid": // a turn
		turns, _ := p.turns(a.name, words[1:])
		require.Equal(p, words[0] == "void", n.Reset && n.Queue != turns[0].ID, p.step)
	default:
		turns, wants := p.turns(a.name, words)
		p.lasts(n.Until(turns[0].At), wants[1:]...)
	}
	*p.news[a.name] = nil
}
