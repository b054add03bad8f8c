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
