package httplimit_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// hangUp is a server that reads its second request and closes the connection.
func hangUp(t *testing.T) *upstream {
	var u *upstream
	u = serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if u.reached.Load() == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		}
	})
	return u
}

func TestAGetThatIsSentAgainTakesATurnAgain(t *testing.T) {
	u, l := hangUp(t), limiter(t, fairlimit.PerHour(10))
	c := client(t, &httplimit.Transport{Limiter: l})
	for range 2 {
		code, _ := get(t, c, u.URL)
		assert.Equal(t, http.StatusOK, code)
	}
	assert.EqualValues(t, 3, u.reached.Load())
	assert.Equal(t, 10-3, status(t, l).Available)
}

func TestAGetThatGetsNoSecondTurnIsNotSentAgain(t *testing.T) {
	u, l := hangUp(t), limiter(t, fairlimit.PerHour(2))
	c := client(t, &httplimit.Transport{Limiter: l})
	get(t, c, u.URL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL, nil)
	require.NoError(t, err)
	_, err = c.Do(req)
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	require.NoError(t, ctx.Err(), "it is refused at once")
	assert.EqualValues(t, 2, u.reached.Load())
	require.NoError(t, l.Reset(t.Context()))
	code, _ := get(t, c, u.URL)
	assert.Equal(t, http.StatusOK, code)
}

// A POST that may be repeated is one with this key. Its body is sent again.
func TestTheLastTurnOfARequestIsSettled(t *testing.T) {
	u, q := hangUp(t), counting(t, 10)
	c := client(t, &httplimit.Transport{
		Limiter: q, Amounts: tokens(100),
		Used: func(*http.Response, []byte) (fairlimit.Amounts, bool) { return fairlimit.Amounts{"tokens": 10}, true },
	})
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.URL, strings.NewReader("ping"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1")
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.EqualValues(t, 3, u.reached.Load())
	require.Eventually(t, func() bool { return left(t, q) == 1000-10-100-10 }, 10*time.Second, time.Millisecond)
}

// refusing is a server of HTTP/2 that refuses so many streams.
type refusing struct {
	streams int
	reached atomic.Int64
}

// start starts the server, and returns its URL and what sends to it.
func (r *refusing) start(t *testing.T) (string, *http.Transport) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	base := &http.Transport{Protocols: new(http.Protocols)}
	base.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		_ = listener.Close()
	})
	return "http://" + listener.Addr().String(), base
}

// Types of frames, and what else of RFC 9113 and RFC 7541 is needed.
const (
	headersFrame, resetFrame, settingsFrame = 1, 3, 4
	endOfHeaders, endOfStream, ack          = 4, 1, 1
	refusedStream                           = 7
	status200                               = 0x88
)

func (r *refusing) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	write := func(kind, flags byte, stream uint32, payload ...byte) {
		frame := []byte{0, 0, byte(len(payload)), kind, flags}
		frame = append(binary.BigEndian.AppendUint32(frame, stream), payload...)
		_, _ = conn.Write(frame)
	}
	_, _ = in.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	write(settingsFrame, 0, 0)
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		_, _ = in.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == settingsFrame && flags&ack == 0:
			write(settingsFrame, ack, 0)
		case kind == headersFrame && r.reached.Add(1) <= int64(r.streams):
			write(resetFrame, 0, stream, 0, 0, 0, refusedStream)
		case kind == headersFrame:
			write(headersFrame, endOfHeaders|endOfStream, stream, status200)
		}
	}
}

func TestAStreamThatIsSentAgainTakesATurnAgain(t *testing.T) {
	r := &refusing{streams: 1}
	url, base := r.start(t)
	l := limiter(t, fairlimit.PerHour(10))
	code, _ := get(t, client(t, &httplimit.Transport{Limiter: l, Base: base}), url)
	assert.Equal(t, http.StatusOK, code)
	assert.EqualValues(t, 2, r.reached.Load())
	assert.Equal(t, 10-2, status(t, l).Available)
}

func TestAStreamThatGetsNoTurnIsNotSentAgain(t *testing.T) {
	r := &refusing{streams: 9}
	url, base := r.start(t)
	c := client(t, &httplimit.Transport{Limiter: limiter(t, fairlimit.PerHour(1)), Base: base})
	c.Timeout = time.Minute
	_, err := c.Get(url)
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	assert.EqualValues(t, 1, r.reached.Load())
}
