package httplimit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairlimit/fairlimit"
)

const (
	mostWhole = 1 << 20  // so long a body is kept whole
	longTail  = 64 << 10 // of a longer one so much is kept

	// settleBound ends a settlement that Redis does not answer.
	settleBound = 5 * time.Second

	// settleEvery is how far apart a Transport sends batches of settlements.
	settleEvery = 50 * time.Millisecond
)

// takeAmounts is wait for a request with amounts.
func (t *Transport) takeAmounts(req *http.Request) (*fairlimit.Turn, error) {
	if t.Permits != nil {
		return nil, fmt.Errorf("%w: Permits together with Amounts or Used", fairlimit.ErrInvalidOption)
	}
	var amounts fairlimit.Amounts
	if t.Amounts != nil {
		amounts = t.Amounts(req)
	}
	return t.gate.Take(req.Context(), t.Limiter, amounts)
}

// settleAfter settles the turn once the caller is done with the response.
func (t *Transport) settleAfter(ctx context.Context, resp *http.Response, turn *fairlimit.Turn) {
	settle := func(body []byte) {
		if used, ok := t.Used(resp, body); ok {
			t.settlements.add(func() { t.settle(context.WithoutCancel(ctx), turn, used) })
		}
	}
	switch {
	case resp.Body == nil:
		settle(nil)
	case resp.StatusCode != http.StatusSwitchingProtocols: // whose body can also be written
		resp.Body = &watched{ReadCloser: resp.Body, ended: settle}
	}
}

func (t *Transport) settle(ctx context.Context, turn *fairlimit.Turn, used fairlimit.Amounts) {
	ctx, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	if err := turn.Settle(ctx, used); err != nil && t.OnError != nil {
		t.OnError(fmt.Errorf("fairlimit: settlement: %w", err))
	}
}

// settlements are sent together, so that a busy Transport does not ask Redis twice
// for each request. The first goes at once. Batches are settleEvery apart.
type settlements struct {
	mu      sync.Mutex
	sent    time.Time // the last batch
	waiting []func()  // the next one: each settles a turn
}

func (s *settlements) add(settle func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, settle)
	if len(s.waiting) == 1 {
		time.AfterFunc(time.Until(s.sent.Add(settleEvery)), s.send)
	}
}

// send sends all that wait: a limiter makes one question of them.
func (s *settlements) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, settle := range s.waiting {
		go settle()
	}
	s.waiting, s.sent = nil, time.Now()
}

// watched is the body of a response. It keeps what its caller reads, and calls
// ended once when the caller is done.
type watched struct {
	io.ReadCloser

	mu    sync.Mutex // a body may be closed while it is read
	kept  []byte
	cut   bool // kept is the tail of what was read
	ended func(body []byte)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.keep(p[:n])
	if err != nil {
		w.end()
	}
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.end()
	return err
}

func (w *watched) keep(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		return
	}
	w.kept = append(w.kept, p...)
	if n := len(w.kept); n > mostWhole || w.cut && n > 2*longTail {
		w.kept, w.cut = slices.Clone(w.kept[n-longTail:]), true
	}
}

func (w *watched) end() {
	w.mu.Lock()
	ended, body := w.ended, w.kept
	if w.cut {
		body = body[max(0, len(body)-longTail):]
	}
	w.ended, w.kept = nil, nil
	w.mu.Unlock()
	if ended != nil {
		ended(body)
	}
}
