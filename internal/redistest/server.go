package redistest

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed keeper.sh
var keeper string

// startTimeout bounds how long anything here may take to become ready.
const startTimeout = 30 * time.Second

// Server is a redis-server process of its own on a loopback port.
//
// Its methods are for the test's goroutine. Those that change the process fail
// the test if they cannot.
type Server struct {
	t      testing.TB // nil for a server that all tests share
	port   port
	dir    string
	client *redis.Client

	// The process is the child of a shell that lives as long as this pipe is
	// open, see keeper.sh. So no goroutine has to watch over it, and no server
	// is left behind, whenever the test binary dies.
	keeper  *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
}

// StartServer starts a server for this test alone. The arguments for
// redis-server come after the default ones and override them. Server and client
// end with the test.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	needRedis(t)
	s, err := launch(alone(args...))
	if err != nil {
		t.Fatal(err)
	}
	s.own(t)
	return s
}

// Addr is the server's host:port; a restart keeps it.
func (s *Server) Addr() string { return s.port.addr() }

// Client is a client of this server; it belongs to the server.
func (s *Server) Client() *redis.Client { return s.client }

// patient are the options of a client that waits for the answer of a server
// that a busy machine holds up. A test of a server that does not answer sets the
// timeouts that it is about.
func (s *Server) patient() *redis.Options {
	return &redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute}
}

// Kill ends the process at once, as a crash would. What it held is lost.
func (s *Server) Kill() {
	s.t.Helper()
	s.must(s.signal("KILL"))
}

// Restart kills the process and starts it anew on the same port, empty unless
// its arguments say otherwise. It returns when the server answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.must(s.restart())
}

// Pause stops the process as it is: connections stay open and new ones are
// taken by the kernel, but nothing is answered until [Server.Resume].
func (s *Server) Pause() {
	s.t.Helper()
	s.must(s.signal("STOP"))
}

// Resume lets a paused process run on.
func (s *Server) Resume() {
	s.t.Helper()
	s.must(s.signal("CONT"))
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) restart() error {
	if err := s.signal("KILL"); err != nil {
		return err
	}
	return s.start()
}

func (s *Server) signal(name string) error {
	pid, err := s.order(name)
	if err == nil && pid == "" && name != "KILL" {
		err = fmt.Errorf("redistest: %s: the server does not run", name)
	}
	return err
}

// own ties the server's life to the test's.
func (s *Server) own(t testing.TB) {
	s.t = t
	t.Cleanup(s.stop)
}

// alone is the command line of a server that depends on no other.
func alone(args ...string) func(dir string, port int) ([]string, error) {
	return func(dir string, port int) ([]string, error) {
		own := []string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "no",
		}
		return append(own, args...), nil
	}
}

var errPortTaken = errors.New("redistest: port taken by another process")

// launch starts a server on a free port. The arguments may depend on its
// directory and port, and what they write is the launcher's.
func launch(args func(dir string, port int) ([]string, error)) (*Server, error) {
	for {
		p, err := takePort()
		if err != nil {
			return nil, err
		}
		s, err := launchOn(p, args)
		if err != nil {
			p.giveBack()
		}
		if !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
}

func launchOn(p port, args func(dir string, port int) ([]string, error)) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	command, err := args(dir, p.number)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	s := &Server{port: p, dir: dir}
	s.keeper = exec.Command("sh", append([]string{"-c", keeper, "sh", dir, ServerProgram()}, command...)...)
	setApart(s.keeper)
	answers, err := s.keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.orders, err = s.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	s.answers = bufio.NewReader(answers)
	if err := s.keeper.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.client = redis.NewClient(s.patient())
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// start starts the process and returns when it answers.
func (s *Server) start() error {
	pid, err := s.order("start")
	if err != nil {
		return err
	}
	return eventually(func(ctx context.Context) error {
		output, _ := os.ReadFile(filepath.Join(s.dir, "output"))
		switch text := string(output); {
		case strings.Contains(text, "Address already in use"):
			return final{errPortTaken}
		case strings.Contains(text, "FATAL CONFIG FILE ERROR"):
			return final{errors.New("redistest: " + text)}
		}
		conn, err := net.Dial("tcp", s.Addr()) // a client would write each refusal to the log
		if err != nil {
			return fmt.Errorf("redistest: %w; the server's output:\n%s", err, output)
		}
		_ = conn.Close()
		info, err := s.client.Info(ctx, "server").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "process_id:"+pid+"\r\n") {
			return final{errPortTaken}
		}
		return s.client.Ping(ctx).Err() // an error while data is being loaded
	})
}

// stop ends the process, waits for it, and removes what it wrote.
func (s *Server) stop() {
	_ = s.client.Close()
	_ = s.orders.Close()
	_ = s.keeper.Wait()
	s.port.giveBack()
}

// order tells the keeper what to do and returns the process id that the server
// has then, empty if it is gone.
func (s *Server) order(order string) (pid string, err error) {
	if _, err := fmt.Fprintln(s.orders, order); err != nil {
		return "", fmt.Errorf("redistest: %s: %w", order, err)
	}
	pid, err = s.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("redistest: %s: %w", order, err)
	}
	return strings.TrimSpace(pid), nil
}

// final is an error that trying again does not mend.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

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

// Process is a [Server] outside of any test: what fails is returned.
type Process struct{ server *Server }

// Start starts one, as [StartServer] does. The caller stops it.
func Start(args ...string) (Process, error) {
	s, err := launch(alone(args...))
	return Process{s}, err
}

// Stop ends the server and removes what it wrote.
func (p Process) Stop() { p.server.stop() }

// Addr is [Server.Addr].
func (p Process) Addr() string { return p.server.Addr() }

// Client is [Server.Client].
func (p Process) Client() *redis.Client { return p.server.Client() }

// Kill is [Server.Kill].
func (p Process) Kill() error { return p.server.signal("KILL") }

// Restart is [Server.Restart].
func (p Process) Restart() error { return p.server.restart() }

// Pause is [Server.Pause].
func (p Process) Pause() error { return p.server.signal("STOP") }

// Resume is [Server.Resume].
func (p Process) Resume() error { return p.server.signal("CONT") }

// Pair starts a primary and its replica for this test alone. The replica is in
// sync. The arguments are for both, see [StartServer].
func Pair(t testing.TB, args ...string) (primary, replica *Server) {
	t.Helper()
	primary = StartServer(t, append(args, "--repl-diskless-sync-delay", "0")...)
	replica = StartServer(t, append(args, "--replicaof", "127.0.0.1", strconv.Itoa(primary.port.number))...)
	if err := heard(primary); err != nil {
		t.Fatal(err)
	}
	return primary, replica
}

// heard returns when a replica acknowledges what the primary writes. The first
// acknowledgement proves nothing: Redis counts what it wrote before the replica
// came as acknowledged while the replica still loads it. The second one counts.
func heard(primary *Server) error {
	for range 2 {
		if err := eventually(primary.acknowledged); err != nil {
			return err
		}
	}
	return nil
}

// acknowledged writes, and returns nil if a replica says in time that it has
// what was written. A replica in sync says so once a second, or when asked.
func (s *Server) acknowledged(ctx context.Context) error {
	conn := s.client.Conn() // WAIT waits for what its own connection wrote
	defer func() { _ = conn.Close() }()
	err := conn.Set(ctx, "redistest", "", time.Millisecond).Err()
	for i := 0; redis.HasErrorPrefix(err, "MOVED"); i++ { // until a key is one of this node's
		err = conn.Set(ctx, fmt.Sprint("redistest", i), "", time.Millisecond).Err()
	}
	if err != nil {
		return err
	}
	replicas, err := conn.Wait(ctx, 1, time.Second).Result()
	if err == nil && replicas == 0 {
		err = errors.New("redistest: no replica has heard")
	}
	return err
}

// quiet is how many looks, a millisecond apart, find no call under way before a
// client is closed. A call to a Cluster is on no connection between two of its
// questions, and neither is what a client asks on its own.
const quiet = 30

// Close closes a client of a real server once no call of it is under way any
// more, or after ten seconds. A go-redis client that is closed earlier looks at
// connections that a call still reads from, which is a data race of its own.
func Close(rdb redis.UniversalClient) {
	end := time.Now().Add(10 * time.Second)
	for looks := 0; looks < quiet && time.Now().Before(end); looks++ {
		if isBusy(rdb) {
			looks = 0
		}
		time.Sleep(time.Millisecond)
	}
	_ = rdb.Close()
}

// isBusy reports whether a connection is in use.
func isBusy(rdb redis.UniversalClient) bool {
	stats := rdb.PoolStats()
	return stats.TotalConns > stats.IdleConns
}
