package httplimit_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/httplimit"
)

// hangUp is a server that reads its second request and closes the connection. It
// counts requests.
func hangUp(t *testing.T) (url string, base *http.Transport, reached *atomic.Int64) {
	base, reached = &http.Transport{}, &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if reached.Add(1) == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		}
	}))
	t.Cleanup(func() {
		base.CloseIdleConnections()
		server.Close()
	})
	return server.URL, base, reached
}

func TestAGetThatIsSentAgainTakesATurnAgain(t *testing.T) {
	l := limiter(t, fairlimit.PerHour(10))
	url, base, reached := hangUp(t)
	transport := &httplimit.Transport{Limiter: l, Base: base}
	for range 2 {
		code, _ := get(t, transport, url)
		assert.Equal(t, http.StatusOK, code)
	}
	assert.EqualValues(t, 3, reached.Load())
	assert.Equal(t, 10-3, status(t, l).Available)
}

func TestAGetThatGetsNoSecondTurnIsNotSentAgain(t *testing.T) {
	l := limiter(t, fairlimit.PerHour(2))
	url, base, reached := hangUp(t)
	transport := &httplimit.Transport{Limiter: l, Base: base}
	get(t, transport, url)
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	began := time.Now()
	_, err := c.Get(url)
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	require.Less(t, time.Since(began), time.Minute, "it is refused at once")
	assert.EqualValues(t, 2, reached.Load())
	require.NoError(t, l.Reset(t.Context()))
	code, _ := get(t, transport, url)
	assert.Equal(t, http.StatusOK, code)
}

// A POST that may be repeated is one with this key. Its body is sent again.
func TestTheLastTurnOfARequestIsSettled(t *testing.T) {
	q := counting(t, 10)
	url, base, reached := hangUp(t)
	transport := &httplimit.Transport{
		Limiter: q, Base: base, Amounts: tokens(100),
		Used: used("tokens", 10),
	}
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("ping"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "1")
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.EqualValues(t, 3, reached.Load())
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
	l := limiter(t, fairlimit.PerHour(3))
	transport := &httplimit.Transport{Limiter: l, Base: base}
	code, _ := get(t, transport, url)
	assert.Equal(t, http.StatusOK, code)
	assert.EqualValues(t, 2, r.reached.Load())
	assert.Equal(t, 3-2, status(t, l).Available)

	r.streams = 9 // its second sending gets no turn
	_, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get(url)
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	assert.EqualValues(t, 3, r.reached.Load())
}
