package llmlimit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// upstream is a model of Anthropic's, which counts strictly: the input when a
// request comes, the output as it is written. It was written from the pages that
// package llmlimit names.
type upstream struct {
	quotas units

	mu      sync.Mutex
	charges map[string][]charge
	refused int
	worst   map[string]int
}

// charge is what counts in the windows that it falls into.
type charge struct {
	at time.Time
	n  int
}

func newUpstream(quotas units) *upstream {
	return &upstream{quotas: quotas, charges: map[string][]charge{}, worst: map[string]int{}}
}

// RoundTrip answers with a stream. The body of a request says what it will get,
// which real ones do not.
func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked struct {
		Output int
		Took   time.Duration
	}
	body, _ := io.ReadAll(req.Body)
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	wants := map[string]int{"": 1, input: (len(body) + 4) / 5, output: 1} // some room is enough
	u.mu.Lock()
	defer u.mu.Unlock()
	for unit, n := range wants {
		if quota := u.quotas[unit]; u.sum(unit, time.Now().Add(-quota.Per))+n > quota.Permits {
			u.refused++
			return answering{status: http.StatusTooManyRequests}.RoundTrip(req)
		}
	}
	u.charge("", 1)
	u.charge(input, wants[input])
	read, write := io.Pipe()
	go func() {
		defer func() { _ = write.Close() }()
		u.write(write, wants[input], asked.Output, asked.Took)
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: read, Request: req}, nil
}

// write writes an answer. Its output counts as it is written.
func (u *upstream) write(w io.Writer, input, tokens int, took time.Duration) {
	const parts = 4
	event := func(kind, format string, values ...any) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fmt.Sprintf(format, values...))
	}
	event("message_start", `"message":{"usage":{"input_tokens":%d,"output_tokens":1}}`, input)
	for part := 1; part <= parts; part++ {
		written := tokens*part/parts - tokens*(part-1)/parts
		time.Sleep(took / parts)
		event("content_block_delta", `"delta":{"type":"text_delta","text":%q}`, strings.Repeat("word", written))
		u.mu.Lock()
		u.charge(output, written)
		u.mu.Unlock()
	}
	event("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}`, tokens)
}

// charge, under mu, counts so much of a unit.
func (u *upstream) charge(unit string, n int) {
	now := time.Now()
	u.charges[unit] = append(u.charges[unit], charge{now, n})
	u.worst[unit] = max(u.worst[unit], u.sum(unit, now.Add(-u.quotas[unit].Per)))
}

// sum, under mu, is what was charged after then.
func (u *upstream) sum(unit string, then time.Time) (sum int) {
	for _, c := range u.charges[unit] {
		if c.at.After(then) {
			sum += c.n
		}
	}
	return sum
}
