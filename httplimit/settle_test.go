package httplimit_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

func tokens(n int) func(*http.Request) fairlimit.Amounts {
	return func(*http.Request) fairlimit.Amounts { return fairlimit.Amounts{"tokens": n} }
}

// used tells of each answer that it used so much of a unit.
func used(unit string, n int) func(*http.Response, []byte) (fairlimit.Amounts, bool) {
	return func(*http.Response, []byte) (fairlimit.Amounts, bool) { return fairlimit.Amounts{unit: n}, true }
}

func TestARequestIsSettledToWhatItUsed(t *testing.T) {
	type reading struct {
		body string
		read int    // so much at once
		want string // what Used is told
	}
	const all = -1
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	tail := long[1<<20-(64<<10):]
	each(t, map[string]reading{
		"read to its end":  {"an answer", all, "an answer"},
		"closed early":     {"an answer", 4, "an a"},
		"closed unread":    {"an answer", 0, ""},
		"of 1 MiB":         {long, all, long},
		"longer":           {long + "!", all, tail[1:] + "!"},
		"much longer":      {strings.Repeat(long, 3), all, tail},
		"read all at once": {strings.Repeat(long, 3), 3 << 20, tail},
	}, func(t *testing.T, r *rig, c reading) {
		told := 0
		r.upstream.body = io.NopCloser(strings.NewReader(c.body))
		r.Amounts = tokens(600)
		r.Used = func(_ *http.Response, body []byte) (fairlimit.Amounts, bool) {
			told++
			assert.True(t, c.want == string(body), "%d bytes, want %d", len(body), len(c.want))
			return fairlimit.Amounts{"tokens": 100}, true
		}
		resp, err := (&http.Client{Transport: r.Transport}).Get(url)
		require.NoError(t, err)
		_, left := r.left(t)
		assert.Equal(t, 400, left)
		if c.read == all {
			_, err = io.ReadAll(resp.Body)
		} else {
			_, err = io.ReadFull(resp.Body, make([]byte, c.read))
		}
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		calls, left := r.left(t)
		assert.Equal(t, 999, calls)
		assert.Equal(t, 900, left)
		assert.Equal(t, 1, told)
	})
}

// What is not settled counts as it was reserved. Without Amounts that is one call.
func TestWhatIsNotKnownStaysReserved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leaves := func(want int) {
			t.Helper()
			_, left := r.left(t)
			assert.Equal(t, want, left)
		}
		r.Amounts = tokens(100)
		r.Used = func(*http.Response, []byte) (fairlimit.Amounts, bool) { return nil, false }
		r.get(t, url)
		r.Base = sender(func(*http.Request) (*http.Response, error) { return nil, assert.AnError })
		_, err := (&http.Client{Transport: r.Transport}).Get(url)
		require.ErrorIs(t, err, assert.AnError)
		leaves(800)
		r.Base, r.Used = r.upstream, used("points", 1)
		r.get(t, url)
		leaves(700)
		synctest.Wait()
		require.ErrorIs(t, r.told, fairlimit.ErrUnknownUnit)
		r.Amounts, r.Used = nil, used("tokens", 70)
		r.get(t, url)
		leaves(630)
	})
}

// One caller sends one request after the other. All are settled in the end.
func TestSettlementsOfABusyTransportGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 200
		var asked atomic.Int32
		r := newRig(t, fairlimit.WithTrace(&fairlimit.Trace{
			Asked: func(op string, _ int, _ time.Duration, _ error) {
				if op == "release" {
					asked.Add(1)
				}
			},
		}))
		r.Amounts, r.Used = tokens(5), used("tokens", 1)
		for range requests {
			time.Sleep(time.Millisecond)
			r.get(t, url)
		}
		_, left := r.left(t)
		assert.Equal(t, 1000-requests, left)
		// Fifty come in 50 ms. Some of them may find the line empty, and go alone.
		assert.LessOrEqual(t, int(asked.Load()), requests/4)
	})
}

// A caller may close while it reads, as one that gives up does.
func TestABodyMayBeClosedWhileItIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		read, write := io.Pipe()
		settled := 0
		r.upstream.body = read
		r.Used = func(*http.Response, []byte) (fairlimit.Amounts, bool) { settled++; return nil, false }
		resp, err := (&http.Client{Transport: r.Transport}).Get(url)
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
		both.Go(func() {
			_, _ = write.Write([]byte("some"))
			_ = resp.Body.Close()
		})
		both.Wait()
		assert.Equal(t, 1, settled)
	})
}
