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
	"github.com/fairlimit/fairlimit/fairlimittest"
	"github.com/fairlimit/fairlimit/httplimit"
)

// counting is a queue that counts tokens as well.
func counting(t *testing.T, calls int, opts ...fairlimit.Option) *fairlimit.Queue {
	t.Helper()
	opts = append(opts, fairlimit.WithUnit("tokens", fairlimit.PerHour(1000)), fairlimit.WithGuard(0))
	return fairlimittest.New(t, fairlimit.PerHour(calls), opts...)
}

func tokens(n int) func(*http.Request) fairlimit.Amounts {
	return func(*http.Request) fairlimit.Amounts { return fairlimit.Amounts{"tokens": n} }
}

// used tells of each answer that it used so much of a unit.
func used(unit string, n int) func(*http.Response, []byte) (fairlimit.Amounts, bool) {
	return func(*http.Response, []byte) (fairlimit.Amounts, bool) { return fairlimit.Amounts{unit: n}, true }
}

func left(t *testing.T, q *fairlimit.Queue) int {
	t.Helper()
	return status(t, q).Units["tokens"].Available
}

// answering is a base that answers with a body.
func answering(body io.ReadCloser) sender {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	}
}

func TestARequestIsSettledToWhatItUsed(t *testing.T) {
	const all = -1
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	tail := long[1<<20-(64<<10):]
	for name, test := range map[string]struct {
		body string
		read int    // so much at once
		want string // what Used is told
	}{
		"read to its end":  {"an answer", all, "an answer"},
		"closed early":     {"an answer", 4, "an a"},
		"closed unread":    {"an answer", 0, ""},
		"of 1 MiB":         {long, all, long},
		"longer":           {long + "!", all, tail[1:] + "!"},
		"much longer":      {strings.Repeat(long, 3), all, tail},
		"read all at once": {strings.Repeat(long, 3), 3 << 20, tail},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, told := counting(t, 10), 0
				transport := &httplimit.Transport{
					Limiter: q, Amounts: tokens(600), Base: answering(io.NopCloser(strings.NewReader(test.body))),
					Used: func(_ *http.Response, body []byte) (fairlimit.Amounts, bool) {
						told++
						assert.True(t, test.want == string(body), "%d bytes, want %d", len(body), len(test.want))
						return fairlimit.Amounts{"tokens": 100}, true
					},
				}
				resp, err := (&http.Client{Transport: transport}).Get("http://upstream")
				require.NoError(t, err)
				assert.Equal(t, 400, left(t, q))
				if test.read == all {
					_, err = io.ReadAll(resp.Body)
				} else {
					_, err = io.ReadFull(resp.Body, make([]byte, test.read))
				}
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				synctest.Wait()
				assert.Equal(t, 900, left(t, q))
				assert.Equal(t, 9, status(t, q).Available)
				assert.Equal(t, 1, told)
			})
		})
	}
}

// What is not settled counts as it was reserved. Without Amounts that is one call.
func TestWhatIsNotKnownStaysReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := counting(t, 10)
		var told error
		transport := &httplimit.Transport{
			Limiter: q, Amounts: tokens(100), OnError: func(err error) { told = err },
			Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { return nil, false },
			Base: sender(func(*http.Request) (*http.Response, error) { return nil, assert.AnError }),
		}
		_, err := (&http.Client{Transport: transport}).Get("http://upstream")
		require.ErrorIs(t, err, assert.AnError)
		transport.Base = answering(http.NoBody)
		get(t, transport, "http://upstream")
		transport.Used = used("points", 1)
		get(t, transport, "http://upstream")
		synctest.Wait()
		require.ErrorIs(t, told, fairlimit.ErrUnknownUnit)
		assert.Equal(t, 700, left(t, q))

		transport.Amounts, transport.Used = nil, used("tokens", 70)
		get(t, transport, "http://upstream")
		time.Sleep(time.Second)
		assert.Equal(t, 630, left(t, q))
	})
}

// One caller sends one request after the other. All are settled in the end.
func TestSettlementsOfABusyTransportGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, took = 200, time.Millisecond
		var asked atomic.Int32
		q := counting(t, requests, fairlimit.WithTrace(&fairlimit.Trace{
			Asked: func(op string, _ int, _ time.Duration, _ error) {
				if op == "release" {
					asked.Add(1)
				}
			},
		}))
		transport := &httplimit.Transport{Limiter: q, Amounts: tokens(5), Base: &upstream{}, Used: used("tokens", 1)}
		for range requests {
			time.Sleep(took)
			get(t, transport, "http://upstream")
		}
		time.Sleep(time.Second)
		assert.Equal(t, 1000-requests, left(t, q))
		// Fifty come in 50 ms. Some of them may find the line empty, and go alone.
		assert.LessOrEqual(t, int(asked.Load()), requests/4)
	})
}

// A caller may close while it reads, as one that gives up does.
func TestABodyMayBeClosedWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		settled := 0
		transport := &httplimit.Transport{
			Limiter: counting(t, 10), Amounts: tokens(1), Base: answering(read),
			Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { settled++; return nil, false },
		}
		resp, err := (&http.Client{Transport: transport}).Get("http://upstream")
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
