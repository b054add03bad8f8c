package httplimit_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
)

// A server reads its second request and closes the connection.
func TestAGetThatIsSentAgainTakesATurnAgain(t *testing.T) {
	var reached atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if reached.Add(1) == 2 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close()
			}
		}
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	for _, turns := range []int{3, 2} {
		r := newRig(t)
		r.Base = base
		require.NoError(t, r.queue.WaitN(t.Context(), 1000-turns))
		reached.Store(0)
		r.get(t, server.URL)
		if turns == 3 {
			r.get(t, server.URL)
		} else {
			began := time.Now()
			_, err := (&http.Client{Transport: r.Transport, Timeout: time.Minute}).Get(server.URL)
			require.ErrorAs(t, err, new(*fairlimit.RefusedError))
			require.Less(t, time.Since(began), time.Minute, "it is refused at once")
		}
		assert.EqualValues(t, turns, reached.Load())
		calls, _ := r.left(t)
		assert.Zero(t, calls)
	}
}

// repeats is a base of one's own that sends twice, and tells.
func repeats(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	for range 2 {
		trace.GotConn(httptrace.GotConnInfo{})
		trace.WroteHeaderField("Host", nil)
	}
	return new(upstream).RoundTrip(req)
}

func TestTheLastTurnOfARequestIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		reserved := 0
		r.Amounts = func(*http.Request) fairlimit.Amounts { reserved += 100; return fairlimit.Amounts{"tokens": reserved} }
		r.Base, r.Used = sender(repeats), used("tokens", 10)
		r.get(t, url)
		calls, tokens := r.left(t)
		assert.Equal(t, 1000-2, calls)
		assert.Equal(t, 1000-100-10, tokens)
	})
}

// Types of frames, and what else of RFC 9113 and RFC 7541 is needed.
const (
	headersFrame, resetFrame, settingsFrame = 1, 3, 4
	endOfHeaders, endOfStream, ack          = 4, 1, 1
	refusedStream                           = 7
	status200                               = 0x88
)

// refuse is a server of HTTP/2 that refuses some streams. It counts all.
func refuse(conn net.Conn, streams, reached *atomic.Int64) {
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
		case kind == headersFrame && reached.Add(1) <= streams.Load():
			write(resetFrame, 0, stream, 0, 0, 0, refusedStream)
		case kind == headersFrame:
			write(headersFrame, endOfHeaders|endOfStream, stream, status200)
		}
	}
}

func TestAStreamThatIsSentAgainTakesATurnAgain(t *testing.T) {
	var streams, reached atomic.Int64
	base := &http.Transport{Protocols: new(http.Protocols)}
	base.Protocols.SetUnencryptedHTTP2(true)
	defer base.CloseIdleConnections()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go refuse(conn, &streams, &reached)
		}
	}()
	url := "http://" + listener.Addr().String()
	r := newRig(t)
	r.Base = base
	streams.Store(1)
	code, _ := r.get(t, url)
	assert.Equal(t, http.StatusOK, code)
	assert.EqualValues(t, 2, reached.Load())
	calls, _ := r.left(t)
	assert.Equal(t, 1000-2, calls)

	require.NoError(t, r.queue.WaitN(t.Context(), 1000-3))
	streams.Store(9) // its second sending gets no turn
	_, err = (&http.Client{Transport: r.Transport, Timeout: time.Minute}).Get(url)
	require.ErrorAs(t, err, new(*fairlimit.RefusedError))
	assert.EqualValues(t, 3, reached.Load())
}
