package fair

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// head is the queue as the key {name} tells it: see lua/fair/open.lua.
type head struct {
	id, void, from, offset, last, span, tail, total int64
	units                                           string
}

func parseHead(text string) (h head, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 9 {
		return h, false
	}
	numbers := []*int64{&h.id, &h.void, &h.from, &h.offset, &h.last, &h.span, &h.tail, &h.total}
	for i, number := range numbers {
		var err error
		if *number, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return h, false
		}
	}
	h.units = words[8]
	return h, true
}

// told is what a limiter was told last: the head of the newest question that
// wrote, by when it was sent. A question that wrote nothing may have seen an old
// copy. Each question carries it, so that a server that has lost it hears of it.
type told struct {
	mu     sync.Mutex
	sent   time.Time
	head   string
	units  string
	totals []int64 // of each log
}

func (t *told) learn(r *reply, sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.wrote && !sent.Before(t.sent) {
		t.sent, t.head, t.units = sent, r.text, r.head.units
		t.totals = append([]int64{r.head.total}, r.totals...)
	}
}

// recall is the head, and the total of each log. Of units that the queue did not
// have nothing is known.
func (t *told) recall(units string, logs int) (head string, totals []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	totals = make([]any, logs)
	for i := range totals {
		totals[i] = 0
		if i < len(t.totals) && (i == 0 || units == t.units) {
			totals[i] = t.totals[i]
		}
	}
	return t.head, totals
}
