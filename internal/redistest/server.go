package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout bounds how long anything here may take to become ready.
const startTimeout = 30 * time.Second

// keeper is a shell that starts the server in $@, tells its process id, and kills
// it when standard input ends. That happens when the test binary is no more,
// however it ends. $0 is the server's directory.
const keeper = `trap '' HUP INT TERM
"$@" </dev/null >"$0/output" 2>&1 &
echo $!
read -r _
kill -KILL $!
wait
rm -rf "$0"`

// Server is a redis-server process of its own on a loopback port. Its methods
// panic if they fail.
type Server struct {
	args   []string
	number int          // of its port
	lease  net.Listener // see takePort
	client *redis.Client
	pid    string
	stdin  io.Closer // of the keeper
	keeper *exec.Cmd // nil if there is no process
}

// StartServer starts a server for this test alone. The arguments for redis-server
// come after the default ones and override them. Server and client end with the
// test.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	needRedis(t)
	s, err := Start(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Start is [StartServer] outside of any test. The caller stops the server.
func Start(args ...string) (*Server, error) {
	number, lease, err := takePort()
	if err != nil {
		return nil, err
	}
	s := &Server{number: number, lease: lease}
	own := []string{"--port", s.port(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
	file := 0 // a configuration has to come first
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		file = 1
	}
	s.args = slices.Concat(args[:file], own, args[file:])
	// It waits for the answer of a server that a busy machine holds up.
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute})
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Addr is the server's host:port; a restart keeps it.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.port()) }

func (s *Server) port() string { return strconv.Itoa(s.number) }

// Client is a client of this server; it belongs to the server.
func (s *Server) Client() *redis.Client { return s.client }

// Kill ends the process at once, as a crash would. What it held is lost.
func (s *Server) Kill() {
	if s.keeper == nil {
		return
	}
	_ = s.stdin.Close()
	_ = s.keeper.Wait()
	s.keeper = nil
}

// Restart kills the process and starts it anew on the same port, empty. It
// returns when the server answers.
func (s *Server) Restart() {
	s.Kill()
	must(s.start())
}

// Pause stops the process as it is: connections stay open and new ones are taken
// by the kernel, but nothing is answered until [Server.Resume].
func (s *Server) Pause() { must(exec.Command("kill", "-STOP", s.pid).Run()) }

// Resume lets a paused process run on.
func (s *Server) Resume() { must(exec.Command("kill", "-CONT", s.pid).Run()) }

// Stop ends the server and its client.
func (s *Server) Stop() {
	_ = s.client.Close()
	s.Kill()
	_ = s.lease.Close()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start starts the process and returns when it answers.
func (s *Server) start() error {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return err
	}
	words := slices.Concat([]string{"-c", keeper, dir, ServerProgram()}, s.args, []string{"--dir", dir})
	s.keeper = exec.Command("sh", words...)
	stdout, err := s.keeper.StdoutPipe()
	must(err)
	s.stdin, err = s.keeper.StdinPipe()
	must(err)
	if err := s.keeper.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	pid, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return err
	}
	s.pid = strings.TrimSpace(pid)
	return eventually(func(ctx context.Context) error {
		output, _ := os.ReadFile(filepath.Join(dir, "output"))
		if strings.Contains(string(output), "FATAL CONFIG FILE ERROR") {
			return final{errors.New("redistest: " + string(output))}
		}
		conn, err := net.Dial("tcp", s.Addr()) // a client would write each refusal to the log
		if err != nil {
			return err
		}
		_ = conn.Close()
		if info, err := s.client.Info(ctx, "server").Result(); !strings.Contains(info, "process_id:"+s.pid+"\r\n") {
			return fmt.Errorf("redistest: another server is at %s: %w", s.Addr(), err)
		}
		return s.client.Ping(ctx).Err() // an error while data is being loaded
	})
}

// takePort returns a port that nobody listens on. It is its server's until the
// lease ends, also while that is killed: tests of other packages, which run at the
// same time, listen on the odd port above first. The port lies below those for
// outgoing connections, and so does the port 10000 above, which a cluster node
// takes too.
func takePort() (number int, lease net.Listener, err error) {
	listen := func(number int) (net.Listener, error) { return net.Listen("tcp", fmt.Sprint("127.0.0.1:", number)) }
	for range 1000 {
		number = 10000 + 2*rand.IntN(5000)
		if lease, err = listen(number + 1); err != nil {
			continue
		}
		own, err := listen(number)
		bus, busErr := listen(number + 10000)
		for _, l := range []net.Listener{own, bus} {
			if l != nil {
				_ = l.Close()
			}
		}
		if err == nil && busErr == nil {
			return number, lease, nil
		}
		_ = lease.Close()
	}
	return 0, nil, fmt.Errorf("redistest: none of 1000 ports is free: %w", err)
}

// final is an error that trying again does not mend.
type final struct{ error }

// eventually tries until there is no error, the error is final, or startTimeout
// is over.
func eventually(try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil || errors.As(err, new(final)) || ctx.Err() != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Close closes a client of a real server once no call of it is under way any
// more, or after ten seconds. A go-redis client that is closed earlier looks at
// connections that a call still reads from, which is a data race of its own.
func Close(rdb redis.UniversalClient) {
	// A call to a Cluster is on no connection between two of its questions.
	const quiet = 30 // looks, a millisecond apart
	end := time.Now().Add(10 * time.Second)
	for looks := 0; looks < quiet && time.Now().Before(end); looks++ {
		if stats := rdb.PoolStats(); stats.TotalConns > stats.IdleConns {
			looks = 0
		}
		time.Sleep(time.Millisecond)
	}
	_ = rdb.Close()
}
