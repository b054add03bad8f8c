package fair

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit/engine"
)

// memory is what this limiter remembers of its queue. The watermark goes along
// with every question. A state that does not know of it has lost something: the
// server was flushed or restarted empty, the key was evicted, or a replica was
// promoted that had not heard all. The script then counts what is missing.
//
// The limiter forgets a queue that has ended by this process's clock as well. So
// a server whose clock goes back does not seem to have lost it.
type memory struct {
	mu sync.Mutex
	history

	resetQueue string    // which follows a reset: plain answers do not tell
	resetEnd   int64     // until when the newest known reset is remembered, 0 without one
	resetHeard time.Time // what was asked before may be older than that reset
}

// history is what a limiter was told of one queue on one server.
type history struct {
	watermark watermark
	news      news      // the newest slot comes latest by these, of all that were heard
	under     *quotaSet // the queue obeys these; nil: those of others
	follows   string    // the history that it took the place of, as far as is known
}

// carried is what a question says of a history: its watermark, empty if the
// queue is over, the rest as lua/fair/recover.lua takes it, and the units. The
// rest begins with a name for the next generation.
type carried struct {
	watermark, rest string
	units           told
}

// watermark is one state of a queue, the newest that a limiter was told of.
// Moments are microseconds of the queue's clock.
type watermark struct {
	text            string // '<generation> <epoch> <sequence> <clock>', as the state has it
	sequence, clock int64
	newest          int64 // its newest slot

	units told // as far as they were told
}

// told is up to which sequences and slots units were granted in a history:
// '<unit>=<sequence> <unit>@=<slot> ...'. What a limiter was told last of its queue
// may say nothing of its units.
type told struct {
	history string
	granted engine.Amounts
}

// newest is the newest slot of a unit.
func (u told) newest(unit string) int64 { return int64(u.granted.Of(unit + "@")) }

// tellMoreThan reports whether some unit was granted more.
func (u told) tellMoreThan(other told) bool {
	isMore := func(a engine.Amount) bool { return a.N > other.granted.Of(a.Unit) }
	return slices.ContainsFunc(u.granted.All(), isMore)
}

// replaces reports whether all of some other units counts where these were
// told: in one history, or as it went along with their question.
func (u told) replaces(other told, n *news) bool {
	return u.granted != "" && (other.granted == "" || u.history == other.history || n.wentAlong)
}

// part is some of the text, ” without one.
func (w watermark) part(from, to int) string {
	if w.text == "" {
		return ""
	}
	return w.text[from:to]
}

func (w watermark) generation() string { return w.part(0, generationLength) }

// history is the generation and the epoch.
func (w watermark) history() string { return w.part(0, historyLength) }

// granted is '<epoch> <sequence>': which question granted what it did. It tells
// a grant of this history from one that a server has lost.
func (w watermark) granted() string { return w.part(generationLength+1, historyLength+1+16) }

// before reports whether a watermark of the same history is older.
func (w watermark) before(other watermark) bool {
	return cmp.Or(cmp.Compare(w.clock, other.clock), cmp.Compare(w.sequence, other.sequence)) < 0
}

// ends is when nothing of the queue counts any more, by the quotas that it
// obeys, or by others if that is not known. Nothing counts for longer than the
// server told.
func (h *history) ends(others *quotaSet) int64 {
	end, under := h.watermark.newest, cmp.Or(h.under, others)
	if len(under.windows) > 0 {
		end += under.windows[0].Length
	}
	for _, u := range under.units {
		end = max(end, h.endOf(u))
	}
	if told := h.news.ends; told > 0 {
		end = min(end, told)
	}
	return end
}

// endOf is when nothing of a unit counts any more, 0 if nothing is known of it.
func (h *history) endOf(u unitSet) int64 {
	if newest := h.watermark.units.newest(u.name); newest > 0 {
		return newest + u.windows[0].Length
	}
	return 0
}

// over reports whether the queue has ended, or none is known.
func (h *history) over(others *quotaSet) bool {
	return h.watermark.text == "" || time.Since(h.news.Arrived) > h.news.Until(h.ends(others))
}

// wasOver reports whether the queue had ended when the server told some news, as
// lua/fair/recover.lua finds it.
func (h *history) wasOver(n *news, others *quotaSet) bool {
	return h.watermark.text == "" || elapsed(&h.news, n) > h.news.Until(h.ends(others))
}

// wentAlong reports whether all that is known went along with a question that
// carried a watermark, or none because that was over by this process's clock. While
// the clock stands still, pauses do not change that.
func (h *history) wentAlong(carried string, asked time.Time) bool {
	return (carried == h.watermark.text || carried == "") && !h.news.Arrived.After(asked)
}

// isAhead reports whether a slot of a queue is still to come, as far as is known.
func (m *memory) isAhead(queue string, slot int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watermark.generation() == queue && time.Since(m.news.Arrived) < m.news.Until(slot)
}

// wasReset reports whether a queue was reset that the answer told of to what was
// asked at a moment.
func (m *memory) wasReset(queue string, asked time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isVoid(queue, asked)
}

// isVoid, under mu, is wasReset.
func (m *memory) isVoid(queue string, asked time.Time) bool {
	return queue != m.resetQueue && asked.Before(m.resetHeard)
}

// recall returns what a question under some quotas has to say.
func (m *memory) recall(t *quotaSet) carried {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := strconv.FormatUint(firstGeneration+rand.Uint64N(generations), 36)
	w, n, since := m.watermark, &m.news, time.Since(m.news.Arrived)
	if m.over(t) {
		resetEnd := m.resetEnd
		if n.Server+since.Microseconds() > resetEnd {
			resetEnd = 0
		}
		return carried{rest: fmt.Sprintf("%s 0 0 0 0 0 0 0 %d %s -", fresh, resetEnd, noStretches)}
	}
	under := "-"
	if m.under != nil && m.under.words != t.words && m.under.head != "" {
		under = m.under.words
	}
	comes := n.Until(max(w.newest, n.Clock))
	rest := fmt.Sprintf("%s %d %d %d %d %d %d %d %d %s %s", fresh, n.Server, since.Microseconds(),
		n.Clock, w.newest, comes.Microseconds(), n.Until(m.ends(t)).Microseconds(), n.Stands.Microseconds(),
		m.resetEnd, n.stretches, under)
	return carried{w.text, rest, w.units}
}

// learn keeps what is newer than what is known: replies may arrive out of
// order. What was asked before a reset was heard of does not count.
func (m *memory) learn(w watermark, n news, under *quotaSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isOther := w.history() != m.watermark.history()
	switch {
	case isOther && m.isVoid(w.generation(), n.sent):
		return
	case isOther && !m.wasOver(&n, under) && !n.wentAlong:
		m.keepOlder(w, n, under)
		return
	case !isOther && w.before(m.watermark):
		if w.units.replaces(m.watermark.units, &n) && w.units.tellMoreThan(m.watermark.units) {
			m.watermark.units = w.units // the newer answer need not tell of units
		}
		return
	}
	m.adopt(w, &n, under)
	if isOther {
		m.news = n
	} else {
		m.goBy(&n)
	}
}

// keepOlder, under mu, is for an answer that was under way while another
// history was heard of. What is newer is on the server now, and what is older
// may be lost. So the next question tells of that, and then both are known.
func (m *memory) keepOlder(w watermark, n news, under *quotaSet) {
	older := history{watermark: w, news: n, under: n.obeyed(under)}
	// They may have been put off since. A pause that either tells of goes on.
	isPutOff := m.news.Passed(w.newest) == 0 && elapsed(&n, &m.news)+m.news.Until(w.newest) > n.Until(w.newest)
	if isPutOff && w.generation() == m.watermark.generation() {
		older.news, older.news.ends = m.news, n.ends
		older.news.Stands = max(m.news.Stands, n.Stands-elapsed(&n, &m.news))
	}
	isOlder := w.history() == m.follows || n.Server < m.news.Server // two servers may have two clocks
	if isOlder && !older.wasOver(&m.news, under) {
		m.history = older
	}
}

// adopt, under mu, goes on with what is known of the units unless that is over.
func (h *history) adopt(w watermark, n *news, under *quotaSet) {
	switch {
	case h.wasOver(n, under):
		h.under = nil
	case !w.units.replaces(h.watermark.units, n):
		w.units = h.watermark.units
		if w.generation() != h.watermark.generation() {
			w.units = h.unitsIn(n, under)
		}
	}
	if w.history() != h.watermark.history() {
		h.follows = h.watermark.history()
	}
	h.watermark, h.under = w, cmp.Or(n.obeyed(under), h.under)
}

// hear learns from news when turns come that were seen. A queue that took the
// place of theirs counts them, so it is what the limiter knows from then on.
// After a reset they count no more.
func (m *memory) hear(n *news, under *quotaSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n.wentAlong = m.wentAlong(n.carried, n.sent)
	isNew, mine := n.resetEnd > m.resetEnd, n.Queue == m.watermark.generation()
	n.Reset = isNew || n.Queue == m.resetQueue
	if isNew {
		m.resetQueue, m.resetEnd, m.resetHeard = n.Queue, n.resetEnd, n.Arrived
		if !mine { // else what is known came behind it
			m.history = history{news: *n} // nobody restores it, even if the reset is lost as well
		}
	}
	switch {
	case m.watermark.text == "":
	case n.watermark.history() == m.watermark.history():
		if m.goBy(n) && n.obeys {
			m.under = under
		}
	case n.wentAlong && (mine || !n.Reset && !m.wasOver(n, under)):
		m.adopt(n.watermark, n, under) // it counts what this limiter knows
		m.news = *n
	}
}

// unitsIn, under mu, is what still counts of the units in the queue of some
// news: for as long as it would have in its own.
func (h *history) unitsIn(n *news, others *quotaSet) told {
	var all []engine.Amount
	for _, u := range cmp.Or(h.under, others).units {
		if left := h.news.Until(h.endOf(u)) - elapsed(&h.news, n); left > 0 {
			slot := n.Clock + max(0, left-n.Stands).Microseconds() - u.windows[0].Length
			all = append(all, engine.Amount{Unit: u.name, N: h.watermark.units.granted.Of(u.name)},
				engine.Amount{Unit: u.name + "@", N: int(slot)})
		}
	}
	return told{h.watermark.units.history, engine.AmountsOf(all...)}
}

// goBy, under mu, goes by the newest news of one history, and reports whether these
// are. If a question may have overtaken another one on the way, the queue's clock
// orders their news.
func (h *history) goBy(n *news) bool {
	isNewer := n.sent.After(h.news.Arrived) ||
		cmp.Or(cmp.Compare(n.Clock, h.news.Clock), cmp.Compare(n.Server, h.news.Server), n.sent.Compare(h.news.sent)) >= 0
	if isNewer {
		h.news = *n
	}
	return isNewer
}

// clocksApart is by how much the server's clock went slower than this process's
// if it is another one: it was set back, or a server took over that is behind.
// lua/fair/recover.lua goes by the same.
const clocksApart = time.Second

// elapsed is how long after some news others were told.
func elapsed(before, after *news) time.Duration {
	here, there := after.Arrived.Sub(before.Arrived), microseconds(after.Server-before.Server)
	if here-there > clocksApart {
		return here
	}
	return there
}

// now is what was seen last, over or not.
func (m *memory) now() watermark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watermark
}

// forget drops what was seen so far, unless something else has been seen since.
func (m *memory) forget(w watermark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watermark == w {
		m.watermark = watermark{}
	}
}

// A generation is a word of 8 letters and digits, so that a late return hits a
// later queue of the same name once in 2·10¹².
const (
	generationLength = 8
	historyLength    = generationLength + 1 + 8
	watermarkLength  = historyLength + 1 + 16 + 1 + 16
	wholeWatermark   = watermarkLength + 1 + 16         // with the newest slot
	firstGeneration  = 36 * 36 * 36 * 36 * 36 * 36 * 36 // the first of 8
	generations      = 35 * firstGeneration
)

// parseTold reads '<generation> <epoch> <sequence> <clock> <newest slot>', each at
// a fixed place, and what may follow: the offset of the queue's clock to the
// server's, and how far apart turns are that were granted together.
func parseTold(text string) (w watermark, offset, step int64, err error) {
	if len(text) < wholeWatermark {
		return watermark{}, 0, 0, fmt.Errorf("too short: %q", text)
	}
	w.text = text[:watermarkLength]
	numbers, err := parseNumbers(text[18:34]+" "+text[35:51]+" "+text[52:68], 3)
	if err != nil {
		return watermark{}, 0, 0, err
	}
	w.sequence, w.clock, w.newest = numbers[0], numbers[1], numbers[2]
	if len(text) > wholeWatermark {
		if numbers, err = parseNumbers(text[wholeWatermark:], 2); err != nil {
			return watermark{}, 0, 0, err
		}
		offset, step = numbers[0], numbers[1]
	}
	return w, offset, step, nil
}
