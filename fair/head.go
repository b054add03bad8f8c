package fair

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// head is the queue as the key {name} tells it: see lua/fair/open.lua.
type head struct {
	id, void, stoodAt, offset, written, span, tail int64

	totals []int64 // of each log
	names  string  // of the logs
}

func parseHead(text string) (h head, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 9 {
		return h, false
	}
	numbers := []*int64{&h.id, &h.void, &h.stoodAt, &h.offset, &h.written, &h.span, &h.tail}
	for i, number := range numbers {
		var err error
		if *number, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return h, false
		}
	}
	for _, word := range strings.Split(words[7], ",") {
		total, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return h, false
		}
		h.totals = append(h.totals, total)
	}
	h.names = words[8]
	return h, len(h.totals) == 1+strings.Count(h.names, ",")
}

// memory is what a limiter was told last: the head of the newest question that
// wrote, by when it was sent. A question that wrote nothing may have seen an old
// copy. Each question carries it, so that a server that has lost it hears of it.
type memory struct {
	mu   sync.Mutex
	sent time.Time
	head string
}

func (m *memory) keep(head string, sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sent.Before(m.sent) {
		m.sent, m.head = sent, head
	}
}

func (m *memory) recall() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head
}
