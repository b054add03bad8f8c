package fair

import (
	"cmp"
	"fmt"
	"math/rand/v2"
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
	mu        sync.Mutex
	watermark watermark
	news      news      // the newest slot comes latest by these, of all that were heard
	under     *quotaSet // the clock goes by these, as far as the news say

	asked  time.Time // the latest question that was answered
	server int64     // the server's time in its answer

	resetQueue string    // which follows a reset: plain answers do not tell
	resetEnd   int64     // until when the newest known reset is remembered, 0 without one
	resetHeard time.Time // what was asked before may be older than that reset
}

// watermark is one state of a queue, the newest that a limiter was told of.
// Moments are microseconds of the queue's clock.
type watermark struct {
	text            string // '<generation> <epoch> <sequence> <clock>', as the state has it
	sequence, clock int64
	newest          int64 // its newest slot

	units told // as far as they were told
}

// told is up to which sequences units were granted in a history, and the newest
// slot of then. What a limiter was told last of its queue may say nothing of its
// units.
type told struct {
	history   string
	sequences engine.Amounts
	newest    int64
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

// ends is when nothing of the queue counts any more.
func (m *memory) ends() int64 {
	length := int64(0)
	if m.under != nil && len(m.under.windows) > 0 {
		length = m.under.longest()
	}
	return max(m.watermark.newest, m.watermark.units.newest, m.news.Clock) + length
}

// isAhead reports whether a slot of a queue is still to come, as far as is known.
func (m *memory) isAhead(queue string, slot int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watermark.generation() == queue && time.Since(m.news.Arrived) < m.news.Until(slot)
}

// over, under mu, reports whether the queue has ended, or none is known.
func (m *memory) over() bool {
	return m.watermark.text == "" || time.Since(m.news.Arrived) > m.news.Until(m.ends())
}

// recall returns the watermark for a question under some quotas, and
// the rest as lua/fair/recover.lua takes it. The watermark is empty if the queue
// is over. The rest begins with a name for the next generation.
func (m *memory) recall(t *quotaSet) (text, rest string) {
	fresh := strconv.FormatUint(firstGeneration+rand.Uint64N(generations), 36)
	m.mu.Lock()
	defer m.mu.Unlock()
	w, n, since := m.watermark, &m.news, time.Since(m.news.Arrived)
	if m.over() {
		resetEnd := m.resetEnd
		if n.Server+since.Microseconds() > resetEnd {
			resetEnd = 0
		}
		return "", fmt.Sprintf("%s 0 0 0 0 0 0 0 %d %s -", fresh, resetEnd, noStretches)
	}
	under, resetEnd := "-", m.resetEnd
	if m.under.words != t.words && m.under.head != "" {
		under = m.under.words
	}
	if n.Asked.Before(m.resetHeard) {
		resetEnd = 0
	}
	comes := n.Until(max(w.newest, n.Clock))
	return w.text, fmt.Sprintf("%s %d %d %d %d %d %d %d %d %s %s", fresh, n.Server, since.Microseconds(),
		n.Clock, w.newest, comes.Microseconds(), n.Until(m.ends()).Microseconds(), n.Stands.Microseconds(),
		resetEnd, n.stretches, under)
}

// learn keeps what is newer than what is known: replies may arrive out of
// order. A queue whose state was lost and begun anew may count less than
// before, but its clock goes on.
func (m *memory) learn(w watermark, n news, under *quotaSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.history() == m.watermark.history() {
		if w.before(m.watermark) {
			return
		}
	} else if !m.goesBefore(w, &n) {
		return
	}
	same := w.generation() == m.watermark.generation()
	m.adopt(w, n.Moves, under)
	if !same {
		m.news = n
	}
	m.goBy(n)
}

// goesBefore, under mu, reports whether an answer of another history is what the
// limiter has to know from now on. Of two histories it is the older one that was
// lost, so the next question has to carry that, unless one has. Of those that
// were reset, nobody asks.
func (m *memory) goesBefore(w watermark, n *news) bool {
	older := n.Asked.Before(m.asked) && n.Server < m.server
	switch {
	case m.watermark.text == "" || m.over():
		return !older
	case older:
		return m.watermark.generation() != m.resetQueue
	}
	return n.carried == m.watermark.text
}

// adopt, under mu, goes on with what is known of the units unless that is over.
// In another queue its slots have moved.
func (m *memory) adopt(w watermark, moves int64, under *quotaSet) {
	if w.units.sequences == "" && !m.over() {
		w.units = m.watermark.units
		if w.generation() != m.watermark.generation() {
			w.units.newest += moves
		}
	}
	m.watermark, m.under = w, under
}

// hear learns from news when turns come that were seen. A queue that took the
// place of theirs counts them, so it is what the limiter knows from then on.
// After a reset they count no more.
func (m *memory) hear(n *news, under *quotaSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.Asked.After(m.asked) {
		m.asked, m.server = n.Asked, n.Server
	}
	isNew, mine := n.resetEnd > m.resetEnd, n.Queue == m.watermark.generation()
	n.Reset = isNew || n.Queue == m.resetQueue
	if isNew {
		m.resetQueue, m.resetEnd, m.resetHeard = n.Queue, n.resetEnd, n.Arrived
		if mine {
			m.resetHeard = time.Time{} // what is known came behind it
		} else {
			m.watermark, m.news = watermark{}, *n // nobody restores it, even if the reset is lost as well
		}
	}
	switch {
	case m.watermark.text == "":
	case mine:
		if m.goBy(*n) && len(n.Slow) > 0 {
			m.under = under
		}
	case !n.Reset && !m.over() && n.carried == m.watermark.text:
		m.adopt(n.watermark, n.Moves, under) // it counts what this limiter knows
		m.news = *n
	}
}

// goBy, under mu, goes by the news, unless the newest slot would come sooner
// than was told: no turn does. Then the server has lost what has put it off. In
// one history nothing is lost: others have given turns back.
func (m *memory) goBy(n news) bool {
	if n.watermark.history() == m.watermark.history() && !n.Asked.Before(m.news.Asked) {
		m.news = n
		return true
	}
	at := max(m.watermark.newest, m.news.Clock)
	told := m.news.Until(at) - elapsed(m.news, n)
	if n.Until(at) < told-rounded {
		return false
	}
	m.news = n
	return true
}

// rounded is by how much one wait differs when it is worked out from others.
const rounded = 2 * time.Microsecond

// clocksApart is by how much the server's clock went slower than this process's
// if it is another one: it was set back, or a server took over that is behind.
// lua/fair/recover.lua goes by the same.
const clocksApart = time.Second

// elapsed is how long after some news others were told.
func elapsed(before, after news) time.Duration {
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
