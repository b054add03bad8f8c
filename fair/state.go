package fair

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/fairlimit/fairlimit/engine"
)

// Parts of a state, in bytes and cells: see doc.go and lua/fair/head.lua.
const (
	firstLineBytes  = 79
	secondLineBytes = 112
	ringCells       = 206
	cellBytes       = 15
	noteBytes       = 1024
	entryBytes      = 81
)

// contents are a state, field by field, as lua/fair/header.lua reads it.
// Moments are microseconds of the queue's clock, unless a field says otherwise.
type contents struct {
	windows               []window
	stored                string // the letters of the stored quotas
	mark, flag            byte
	generation, epoch     string
	sequence, clock, last int64

	offset, ends, crowded, coarse, span, closed, oldest, base int64

	moment, full int64
	slow         []engine.Stretch
	inUse        string
	resetEnd     int64 // the server's time
	epochs       string

	slots, totals []int64 // of each cell, the newest last
	entries       []entry
}

// entry is that of one limiter of a flow.
type entry struct {
	flow                      string
	weight, need, ends, share int64
}

var errDamaged = errors.New("not the state of a queue, or damaged")

func readState(text string) (*contents, error) {
	version, _, _ := strings.Cut(text, " ")
	if number, isOurs := strings.CutPrefix(version, "fair"); isOurs && version != "fair5" {
		if _, err := strconv.Atoi(number); err == nil {
			return nil, fmt.Errorf("a state of version %s, want fair5: "+
				"stop the programs that write it, then Reset the queue or let it end", version)
		}
	}
	s, r := &contents{}, &reader{rest: text}
	s.readHeader(r)
	s.readBehind(r)
	if r.damaged {
		return nil, errDamaged
	}
	return s, nil
}

func (s *contents) readHeader(r *reader) {
	head := strings.Split(r.line(), " ")
	r.want(len(head) == 3 && head[0] == "fair5" && len(head[2]) == len(notStored))
	if r.damaged {
		return
	}
	s.readWindows(r, head[1])
	s.stored = head[2]

	line := r.take(firstLineBytes)
	s.mark, s.flag, s.generation, s.epoch = line[0], line[1], line[10:18], line[19:27]
	r.want(strings.IndexByte("-n+", s.mark) >= 0 && strings.IndexByte(" fFM", s.flag) >= 0)
	n := r.numbers(line[28:], 3)
	s.sequence, s.clock, s.last = n[0], n[1], n[2]

	n = r.numbers(r.take(secondLineBytes), 8)
	s.offset, s.ends, s.crowded, s.coarse, s.span = n[0], n[1], n[2], n[3], n[4]
	s.closed, s.oldest, s.base = n[5], n[6], n[7]
	for range s.windows {
		r.numbers(r.take(windowBytes), 2)
	}
}

func (s *contents) readWindows(r *reader, words string) {
	s.windows = nil
	for _, word := range strings.Split(words, ",") {
		n := r.numbers(strings.ReplaceAll(word, "/", " "), 3)
		r.want(n[0] > 0 && n[1] > 0 && n[2] > 0)
		s.windows = append(s.windows, window{int(n[0]), n[1]})
	}
}

// readRing reads the cells that lie at the beginning of what is left.
func (s *contents) readRing(r *reader) {
	r.want(0 <= s.oldest && s.oldest <= s.closed && s.closed-s.oldest <= ringCells && s.oldest < ringCells)
	s.slots, s.totals = nil, nil
	for at := s.oldest; at < s.closed && !r.damaged; at++ {
		cell := r.at(int(at%ringCells)*cellBytes, cellBytes)
		total := number94(cell[8:14])
		s.slots = append(s.slots, number94(cell[:8]))
		s.totals = append(s.totals, s.sequence-remainder(s.sequence-total, 94*94*94*94*94*94))
	}
	s.slots, s.totals = append(s.slots, s.last), append(s.totals, s.sequence)
}

// readBehind reads what is behind the header: the ring, the notes, the entries.
func (s *contents) readBehind(r *reader) {
	s.readRing(r)
	s.moment = s.clock
	if s.mark != '-' {
		notes, _, found := strings.Cut(r.rest[min(ringCells*cellBytes, len(r.rest)):], "\n")
		if r.want(found && len(notes) > 4*17); r.damaged {
			return
		}
		n := r.numbers(notes[:4*17-1], 4)
		s.moment, s.resetEnd, s.full = n[0], n[1], n[2]
		stretches, rest, _ := strings.Cut(notes[4*17:], " ")
		inUse, epochs, _ := strings.Cut(rest, " ")
		slow, err := parseStretches(stretches)
		for i, stretch := range slow {
			r.want(stretch.Pace >= 1_000_000 && (i == 0 || stretch.Until > slow[i-1].Until))
		}
		r.want(err == nil)
		s.slow, s.inUse, s.epochs = slow, inUse, epochs
	}
	for at := ringCells*cellBytes + noteBytes; s.flag != ' ' && at+entryBytes <= len(r.rest); at += entryBytes {
		s.readEntry(r.at(at, entryBytes))
	}
}

// readEntry reads that of one limiter. It is blank if the limiter has gone. A
// damaged one counts as none.
func (s *contents) readEntry(text string) {
	if n, err := parseNumbers(text[flowLetters+memberLetters:], 6); err == nil {
		s.entries = append(s.entries, entry{text[:flowLetters], n[0], n[1], n[3], n[4]})
	}
}

// tell fills in what is known at a moment of the server.
func (s *contents) tell(state *State, server int64) {
	n := s.news(server)
	state.news = n
	l := &line{s, n, server}
	now, kept := n.Clock, l.kept()
	if s.coarse > now && s.span > 0 {
		state.Mixed = n.Until(s.coarse)
		s.tellInUse(state)
	}
	state.Generation, state.Epoch, state.Sequence = s.generation, s.epoch, s.sequence
	state.Paused, state.Offset = n.Stands, microseconds(now-server)
	for _, stretch := range n.Slow {
		if stretch.IsSlow() {
			state.Slowed, state.Pace = n.Until(stretch.Until), max(state.Pace, float64(stretch.Pace)/1e6)
		}
	}
	state.Reset = microseconds(max(0, s.resetEnd-server))
	if s.full+kept > now && s.full > 0 {
		state.Full = n.Until(s.full + kept)
	}
	s.tellEpochs(state)
	s.tellFlows(state, n)

	if l.counts() {
		state.line = l
		state.Backlog, state.Cells = l.backlog(), len(s.slots)
		state.CellsAhead = len(s.slots) - s.firstAfter(l.passed())
		if s.last > l.passed() {
			state.Tail = n.Until(s.last)
		}
	}
	state.Next = l.next(now)
	if len(s.windows) == 1 && s.windows[0] == (window{1, 1}) {
		return // what a state has whose callers know no quota
	}
	state.Windows = l.uses()
	state.Available = available(state.Windows, state.Next)
}

// tellInUse reads '<windows>|<windows>...', or '-' if all callers had the same.
func (s *contents) tellInUse(state *State) {
	for words := range strings.SplitSeq(s.inUse, "|") {
		windows, err := parseWindows(words)
		if err != nil {
			return
		}
		state.InUse = append(state.InUse, tellWindows(windows))
	}
}

func (s *contents) tellFlows(state *State, n *engine.News) {
	at, newest := map[string]int{}, int64(0)
	for _, e := range s.entries {
		if e.ends <= n.Clock {
			continue
		}
		i, known := at[e.flow]
		if !known {
			i = len(state.Flows)
			at[e.flow], state.Flows = i, append(state.Flows, Flow{ID: e.flow})
		}
		f := &state.Flows[i]
		f.Weight, f.Limiters, f.Share = int(e.weight), f.Limiters+1, f.Share+int(e.share)
		f.Need, f.Ends = max(f.Need, int(e.need)), max(f.Ends, n.Until(e.ends))
		newest = max(newest, e.ends)
	}
	state.Flowless = len(state.Flows) > 0 && s.last > n.Clock && s.last+defaultGrace.Microseconds() > newest
}

// tellEpochs reads ' <name> <end> <known>@<slot>', again and again.
func (s *contents) tellEpochs(state *State) {
	words := strings.Fields(s.epochs)
	if len(words) > 0 && words[0] == "-" {
		state.Forgotten, words = true, words[1:]
	}
	for ; len(words) >= 3; words = words[3:] {
		known, _, _ := strings.Cut(words[2], "@")
		numbers, err := parseNumbers(words[1]+" "+known, 2)
		if err == nil {
			state.Epochs = append(state.Epochs, Epoch{words[0], numbers[0], numbers[1]})
		}
	}
}

// news tells where the queue's clock is at a moment of the server, as
// lua/fair/clock.lua does.
func (s *contents) news(server int64) *engine.News {
	at := max(server+s.offset, s.moment) // it does not go back
	n := engine.News{Clock: s.clock, Slow: s.slow}
	if rest := n.Real(s.clock) - at; rest > 0 {
		n.Stands = microseconds(rest)
	} else { // the last label that is not later
		n.Clock += int64(sort.Search(int(1-rest), func(i int) bool { return n.Real(s.clock+int64(i)) > at })) - 1
		n.Late = at - n.Real(n.Clock)
	}
	for len(n.Slow) > 0 && n.Clock >= n.Slow[0].Until {
		n.Slow = n.Slow[1:]
	}
	return &n
}

// firstAfter is the first cell whose slot is later.
func (s *contents) firstAfter(at int64) int {
	return sort.Search(len(s.slots), func(i int) bool { return s.slots[i] > at })
}

// totalUntil is the sequence up to a moment, as lua/fair/status.lua tells it.
func (s *contents) totalUntil(at, now int64) int64 {
	i, passed := s.firstAfter(at), s.base
	if i > 0 {
		passed = s.totals[i-1]
	}
	if i == len(s.slots) || s.coarse > now {
		return passed
	}
	permits, length := int64(s.windows[len(s.windows)-1].Permits), s.slots[i]-at-1
	for _, w := range s.windows {
		permits += length / w.Length * int64(w.Permits)
		length %= w.Length
	}
	return max(passed, s.totals[i]-permits)
}

// number94 reads a number of base 94 from '!' on.
func number94(digits string) (n int64) {
	for i := range len(digits) {
		n = 94*n + int64(digits[i]) - '!'
	}
	return n
}

// remainder is one that is not below 0.
func remainder(n, of int64) int64 { return (n%of + of) % of }

// reader takes a state apart. Once something does not fit, it is damaged, and
// what is read is blank.
type reader struct {
	rest    string
	damaged bool
}

func (r *reader) want(true bool) { r.damaged = r.damaged || !true }

func (r *reader) line() (line string) {
	line, rest, found := strings.Cut(r.rest, "\n")
	r.rest = rest
	r.want(found)
	return line
}

func (r *reader) take(n int) string {
	text := r.at(0, n)
	r.rest = r.rest[min(n, len(r.rest)):]
	return text
}

// at is so many bytes of the rest, which stay there.
func (r *reader) at(from, n int) string {
	r.want(from+n <= len(r.rest))
	if r.damaged {
		return strings.Repeat(" ", n)
	}
	return r.rest[from : from+n]
}

// numbers reads so many that are separated by blanks. Sums of them stay exact.
func (r *reader) numbers(text string, count int) []int64 {
	numbers, err := parseNumbers(text, count)
	r.want(err == nil)
	for _, n := range numbers {
		r.want(n < 1<<52 && n > -1<<52)
	}
	if r.damaged {
		return make([]int64, count)
	}
	return numbers
}
