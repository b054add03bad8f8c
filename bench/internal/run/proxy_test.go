package run

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnswersComeLaterAndWhole(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	proxy, err := Open(
		func() (net.Conn, error) { return net.Dial("tcp", echo.Addr().String()) },
		func(*rand.Rand) time.Duration { return 30 * time.Millisecond }, 1)
	require.NoError(t, err)

	client, err := net.Dial("tcp", proxy.Addr)
	require.NoError(t, err)
	defer client.Close()
	for range 3 {
		asked := time.Now()
		_, err = client.Write([]byte("hello"))
		require.NoError(t, err)
		answer := make([]byte, 5)
		_, err = io.ReadFull(client, answer)
		require.NoError(t, err)
		require.Equal(t, "hello", string(answer))
		require.GreaterOrEqual(t, time.Since(asked), 30*time.Millisecond)
	}

	proxy.Close()
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err, "its connections end with it")
	_, err = net.Dial("tcp", proxy.Addr)
	require.Error(t, err)
}

func TestAServerThatIsAwayEndsTheConnection(t *testing.T) {
	proxy, err := Open(
		func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:1") },
		func(*rand.Rand) time.Duration { return 0 }, 1)
	require.NoError(t, err)
	defer proxy.Close()
	client, err := net.Dial("tcp", proxy.Addr)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
}
