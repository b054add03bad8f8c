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
// not heard all), and then counts what is missing as full. It is dropped once
// the queue has ended by this process's clock as well, so that a server whose
// clock goes back does not seem to have lost a queue that ended by itself.
type position struct {
	mu      sync.Mutex
	seen    seen
	expires time.Time
	soonest time.Time // when the queue ends at the soonest, if quotas become wider
	ended   string    // the generation that was found to have ended by itself
	goesOn  time.Time // when a pause is over

	resetEnd int64 // until when the newest reset is remembered that this limiter knows of, 0 if it knows of none
	resetAt  int64 // what was seen at an earlier clock may have come before it
}

// seen is one state of a queue. Moments are microseconds: the clock is the
// queue's, newest slot and end are the server's.
type seen struct {
	text            string // '<generation> <epoch> <sequence> <clock>', as the state has it
	sequence, clock int64
	label, lost     int64 // its newest slot, and up to which all counts as full, by the queue's clock
	newest, end     int64 // when that is, and when its key ends
	pauseEnd        int64 // until when it is paused, 0 if it is not
}

// lasts is for how much longer what was seen does.
type lasts struct{ key, pause time.Duration }

func (s seen) generation() string {
	if s.text == "" {
		return ""
	}
	return s.text[:generationLength]
}

// before reports whether something was seen of a generation before something
// else was. At one moment of the clock permits grow, what counts as full, and a
// pause.
func (s seen) before(other seen) bool {
	return cmp.Or(cmp.Compare(s.clock, other.clock), cmp.Compare(s.sequence, other.sequence),
		cmp.Compare(s.lost, other.lost), cmp.Compare(s.pauseEnd, other.pauseEnd)) < 0
}

// recall returns what was seen last as the scripts take it: nothing if it is
// over, and what goes with it behind a name for the next generation.
func (p *position) recall() (text, rest string) {
	fresh := make([]byte, 0, 96)
	fresh = strconv.AppendUint(fresh, firstGeneration+rand.Uint64N(generations), 36)
	p.mu.Lock()
	now := time.Now()
	s, over, paused, resetEnd := p.seen, p.seen.end == 0 || now.After(p.expires), p.goesOn.Sub(now), p.resetEnd
	if s.clock < p.resetAt {
		resetEnd = 0
	}
	p.mu.Unlock()
	if over {
		return "", string(append(fresh, " 0 0 0 0 0 0 0"...))
	}
	fresh = strconv.AppendInt(append(fresh, ' '), s.newest, 10)
	fresh = strconv.AppendInt(append(fresh, ' '), s.end, 10)
	if s.pauseEnd == 0 || paused <= 0 {
		fresh = append(fresh, " 0 0"...)
	} else {
		fresh = strconv.AppendInt(append(fresh, ' '), s.pauseEnd, 10)
		fresh = strconv.AppendInt(append(fresh, ' '), paused.Microseconds(), 10)
	}
	fresh = strconv.AppendInt(append(fresh, ' '), s.label, 10)
	fresh = strconv.AppendInt(append(fresh, ' '), s.lost, 10)
	return s.text, string(strconv.AppendInt(append(fresh, ' '), resetEnd, 10))
}

// learn keeps what is newer than what is known: replies may arrive out of
// order. A queue whose state was lost and begun anew may count less than
// before, but its clock goes on. In a pause it does not, and the pause may have
// become longer.
func (p *position) learn(s seen, left lasts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.seen
	if s.generation() == old.generation() && s.before(old) {
		return
	}
	now := time.Now()
	if s.generation() != old.generation() {
		p.replaced(now)
	}
	p.seen, p.expires, p.goesOn = s, now.Add(left.key), now.Add(left.pause)
	p.soonest = p.expires
}

// replaced, under mu, notes that there is no queue any more, or another one,
// than was seen: it has ended if it can have. Else it was lost.
func (p *position) replaced(now time.Time) {
	if p.seen.text != "" && now.After(p.soonest) {
		p.ended = p.seen.generation()
	}
}

// hear learns from news when turns come that were seen. It returns the
// generation that has ended, if one is known to have.
func (p *position) hear(n *news) (ended string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.seen.text == "":
	case n.Queue != p.seen.generation():
		p.replaced(n.Asked)
	case n.server > 0 && p.seen.label > 0:
		p.move(n)
	}
	return p.ended
}

// move, under mu, puts off what was seen, as a pause or narrower quotas have.
// What narrower quotas have put off, wider ones bring forward again.
func (p *position) move(n *news) {
	s := &p.seen
	plain := s.label - n.Clock
	comes := min(plain, 0)
	if plain > 0 || plain == 0 && n.Stands > 0 {
		comes = n.Until(s.label).Microseconds()
	}
	by := n.server + comes - s.newest
	if by < 0 {
		by = min(0, max(by, p.soonest.Sub(p.expires).Microseconds()))
	}
	if by >= -rounded && by <= rounded {
		by = 0
	}
	s.newest, s.end = s.newest+by, s.end+by
	p.expires = p.expires.Add(microseconds(by))
	if n.SlowUntil > 0 {
		p.soonest = n.Asked.Add(n.Stands + microseconds(plain+s.end-s.newest))
	} else if by > 0 {
		p.soonest = p.soonest.Add(microseconds(by))
	}
}

// rounded is by how many microseconds one moment differs when it is worked out
// from others.
const rounded = 2

// wasReset keeps in mind that a queue followed a reset, which this limiter may
// have seen already. A pause is seen at a clock that is a microsecond ahead.
func (p *position) wasReset(n *news) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.resetEnd <= p.resetEnd {
		return
	}
	p.resetEnd, p.resetAt = n.resetEnd, n.Clock+2
	if p.seen.generation() == n.Queue {
		p.resetAt = p.seen.clock
	}
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

// parseSeen reads '<generation> <epoch> <sequence> <clock> <newest slot>', each at
// a fixed place, and returns what stands behind it.
func parseSeen(text string) (s seen, rest string, err error) {
	const position, whole = 51, 68
	if len(text) < whole {
		return seen{}, "", fmt.Errorf("too short: %q", text)
	}
	s.text = text[:position]
	for _, field := range []struct {
		value *int64
		text  string
	}{{&s.sequence, text[18:34]}, {&s.clock, text[35:51]}, {&s.label, text[52:68]}} {
		if *field.value, err = strconv.ParseInt(strings.TrimLeft(field.text, " "), 10, 64); err != nil {
			return seen{}, "", err
		}
	}
	return s, text[whole:], nil
}

// parseTold reads what lua/fair/write.lua gives a limiter to remember.
func parseTold(text string) (s seen, left lasts, err error) {
	s, rest, err := parseSeen(text)
	if err != nil {
		return seen{}, lasts{}, err
	}
	numbers, err := parseNumbers(rest, 6)
	if err != nil {
		return seen{}, lasts{}, err
	}
	s.newest, s.end, s.pauseEnd, s.lost = numbers[0], numbers[1], numbers[2], numbers[5]
	return s, lasts{microseconds(numbers[3]), microseconds(numbers[4])}, nil
}
