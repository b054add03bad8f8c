package fair

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// position is where this limiter saw its queue last. It goes along with every
// question: a state that does not know of it has lost something (a server that
// was flushed or restarted empty, a key evicted, a replica promoted that had
// not heard all), and then counts what is missing. It is dropped once the queue
// has ended by this process's clock as well, so that a server whose clock goes
// back does not seem to have lost a queue that ended by itself.
type position struct {
	mu    sync.Mutex
	seen  seen
	news  news   // by which the newest slot comes latest, of all that were heard
	under *terms // that the clock goes by, as far as the news say

	resetEnd int64 // until when the newest reset is remembered that this limiter knows of, 0 if it knows of none
	resetAt  int64 // what was seen at an earlier clock may have come before it
}

// seen is one state of a queue. Moments are microseconds of the queue's clock.
type seen struct {
	text            string // '<generation> <epoch> <sequence> <clock>', as the state has it
	sequence, clock int64
	newest          int64 // its newest slot
}

func (s seen) generation() string {
	if s.text == "" {
		return ""
	}
	return s.text[:generationLength]
}

// before reports whether something was seen of a generation before something
// else was.
func (s seen) before(other seen) bool {
	return cmp.Or(cmp.Compare(s.clock, other.clock), cmp.Compare(s.sequence, other.sequence)) < 0
}

// ends is when nothing of what was seen counts any more.
func (p *position) ends() int64 {
	length := int64(0)
	if p.under != nil && len(p.under.windows) > 0 {
		length = p.under.windows[0].Length
	}
	return max(p.seen.newest, p.news.Clock) + length
}

// recall returns what was seen last as lua/fair/recover.lua takes it, for a
// question under the windows of a head: nothing if it is over, and what goes
// with it behind a name for the next generation.
func (p *position) recall(head string) (text, rest string) {
	fresh := strconv.FormatUint(firstGeneration+rand.Uint64N(generations), 36)
	p.mu.Lock()
	defer p.mu.Unlock()
	s, n, since := p.seen, &p.news, time.Since(p.news.Arrived)
	if s.text == "" || since > n.Until(p.ends()) {
		return "", fresh + " 0 0 0 0 0 0 0 0 0 0 -"
	}
	under, resetEnd := "-", p.resetEnd
	if p.under.head != head && p.under.head != "" {
		under = strings.Fields(p.under.head)[1]
	}
	if s.clock < p.resetAt {
		resetEnd = 0
	}
	comes := n.Until(max(s.newest, n.Clock))
	return s.text, fmt.Sprintf("%s %d %d %d %d %d %d %d %d %d %d %s", fresh, n.server, since.Microseconds(), n.Clock,
		s.newest, comes.Microseconds(), n.Until(p.ends()).Microseconds(), n.Stands.Microseconds(), n.SlowUntil,
		n.SlowPace, resetEnd, under)
}

// learn keeps what is newer than what is known: replies may arrive out of
// order. A queue whose state was lost and begun anew may count less than
// before, but its clock goes on.
func (p *position) learn(s seen, n news, under *terms) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := s.generation() == p.seen.generation()
	if same && s.before(p.seen) {
		return
	}
	if !same && n.Asked.Before(p.news.Asked) && n.server < p.news.server {
		return // of a queue that was lost or reset since
	}
	p.seen, p.under = s, under
	if !same {
		p.news = n
	}
	p.goBy(n)
}

// hear learns from news when turns come that were seen, also from those of a
// queue that took the place of theirs. After a reset they count no more.
func (p *position) hear(n news, under *terms) {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := n.Queue == p.seen.generation()
	if n.resetEnd > p.resetEnd {
		p.resetEnd, p.resetAt = n.resetEnd, n.Clock+2
		if mine {
			p.resetAt = p.seen.clock
		}
	}
	if p.seen.text != "" && (mine || !n.Reset) && p.goBy(n) && n.SlowUntil > 0 {
		p.under = under
	}
}

// goBy, under mu, goes by the news, unless the newest slot would come sooner
// than was told: no turn does. Then the server has lost what has put it off.
func (p *position) goBy(n news) bool {
	at := max(p.seen.newest, p.news.Clock)
	told := p.news.Until(at) - elapsed(p.news, n)
	if n.Until(at) < told-rounded {
		return false
	}
	p.news = n
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
	here, there := after.Arrived.Sub(before.Arrived), microseconds(after.server-before.server)
	if here-there > clocksApart {
		return here
	}
	return there
}

// now is what was seen last, over or not.
func (p *position) now() seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// forget drops what was seen so far, unless something else has been seen since.
func (p *position) forget(s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == s {
		p.seen = seen{}
	}
}

// A generation is a word of 8 letters and digits, so that a late return hits a
// later queue of the same name once in 2·10¹².
const (
	generationLength = 8
	firstGeneration  = 36 * 36 * 36 * 36 * 36 * 36 * 36 // the first of 8
	generations      = 35 * firstGeneration
)

// granted is '<epoch> <sequence>': which question granted what it did. It tells
// a grant of this history from one that a server has lost.
func (s seen) granted() string {
	if s.text == "" {
		return ""
	}
	return s.text[generationLength+1 : 34]
}

// parseTold reads '<generation> <epoch> <sequence> <clock> <newest slot>', each at
// a fixed place, and what may follow: the offset of the queue's clock to the
// server's, and how far apart turns are that were granted together.
func parseTold(text string) (s seen, offset, step int64, err error) {
	const position, whole = 51, 68
	if len(text) < whole {
		return seen{}, 0, 0, fmt.Errorf("too short: %q", text)
	}
	s.text = text[:position]
	numbers, err := parseNumbers(text[18:34]+" "+text[35:51]+" "+text[52:68], 3)
	if err != nil {
		return seen{}, 0, 0, err
	}
	s.sequence, s.clock, s.newest = numbers[0], numbers[1], numbers[2]
	if len(text) > whole {
		if numbers, err = parseNumbers(text[whole:], 2); err != nil {
			return seen{}, 0, 0, err
		}
		offset, step = numbers[0], numbers[1]
	}
	return s, offset, step, nil
}
