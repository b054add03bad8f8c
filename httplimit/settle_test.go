package httplimit_test

import (
	"errors"
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
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for name, test := range map[string]struct {
		body string
		use  func(t *testing.T, body io.ReadCloser)
		want string // what Used is told
	}{
		"read to its end":  {"an answer", readAll, "an answer"},
		"closed early":     {"an answer", readSome(4), "an a"},
		"closed unread":    {"an answer", readSome(0), ""},
		"of 1 MiB":         {long, readAll, long},
		"longer":           {long + "!", readAll, long[1<<20-(64<<10)+1:] + "!"},
		"much longer":      {strings.Repeat(long, 3), readAll, long[1<<20-(64<<10):]},
		"read all at once": {strings.Repeat(long, 3), readSome(3 << 20), long[1<<20-(64<<10):]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := counting(t, 10)
				told := 0
				transport := &httplimit.Transport{
					Limiter: q, Amounts: tokens(600), Base: answering(io.NopCloser(strings.NewReader(test.body))),
					Used: func(resp *http.Response, body []byte) (fairlimit.Amounts, bool) {
						told++
						assert.Equal(t, http.StatusOK, resp.StatusCode)
						assert.True(t, test.want == string(body), "%d bytes, want %d", len(body), len(test.want))
						return fairlimit.Amounts{"tokens": 100}, true
					},
				}
				resp, err := (&http.Client{Transport: transport}).Get("http://upstream")
				require.NoError(t, err)
				assert.Equal(t, 400, left(t, q))
				test.use(t, resp.Body)
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

func readAll(t *testing.T, body io.ReadCloser) {
	_, err := io.ReadAll(body)
	require.NoError(t, err)
}

func readSome(n int) func(t *testing.T, body io.ReadCloser) {
	return func(t *testing.T, body io.ReadCloser) {
		_, err := io.ReadFull(body, make([]byte, n))
		require.NoError(t, err)
	}
}

// What is not settled counts as it was reserved.
func TestWhatIsNotKnownStaysReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := counting(t, 10)
		failed := errors.New("no route")
		transport := &httplimit.Transport{
			Limiter: q, Amounts: tokens(100),
			Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { return nil, false },
			Base: sender(func(*http.Request) (*http.Response, error) { return nil, failed }),
		}
		_, err := (&http.Client{Transport: transport}).Get("http://upstream")
		require.ErrorIs(t, err, failed)
		transport.Base = answering(http.NoBody)
		get(t, &http.Client{Transport: transport}, "http://upstream")
		synctest.Wait()
		assert.Equal(t, 800, left(t, q))

		told := make(chan error, 1)
		transport.OnError = func(err error) { told <- err }
		transport.Used = func(*http.Response, []byte) (fairlimit.Amounts, bool) {
			return fairlimit.Amounts{"points": 1}, true
		}
		get(t, &http.Client{Transport: transport}, "http://upstream")
		require.ErrorIs(t, <-told, fairlimit.ErrUnknownUnit)
	})
}

func TestWhoeverHasNoAmountsTellsThemAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := counting(t, 10)
		transport := &httplimit.Transport{
			Limiter: q, Base: answering(io.NopCloser(strings.NewReader("cost: 70"))),
			Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { return fairlimit.Amounts{"tokens": 70}, true },
		}
		get(t, &http.Client{Transport: transport}, "http://upstream")
		synctest.Wait()
		assert.Equal(t, 930, left(t, q))
	})
}

// One caller that sends one request after the other costs few questions more
// than its turns do. All of them are settled in the end.
func TestSettlementsOfABusyTransportGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, took = 50, 10 * time.Millisecond
		var asked atomic.Int32
		q := counting(t, requests, fairlimit.WithTrace(&fairlimit.Trace{
			Asked: func(op string, _ int, _ time.Duration, _ error) {
				if op == "release" {
					asked.Add(1)
				}
			},
		}))
		client := &http.Client{Transport: &httplimit.Transport{
			Limiter: q, Amounts: tokens(20), Base: answering(io.NopCloser(strings.NewReader("an answer"))),
			Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { return fairlimit.Amounts{"tokens": 1}, true },
		}}
		for range requests {
			time.Sleep(took)
			get(t, client, "http://upstream")
		}
		time.Sleep(time.Second)
		assert.Equal(t, 1000-requests, left(t, q))
		// Five come in 50 ms. One of them may find the line empty, and go alone.
		assert.LessOrEqual(t, int(asked.Load()), 3*requests/5)
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
