package speed

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/bench/internal/backend"
	"github.com/fairlimit/fairlimit/bench/internal/run"
)

// Role is that of the processes in which callers wait beside those of others.
const Role = "speed"

// Main is the life of such a process. It does not return.
func Main() {
	run.Answer(func(ctx context.Context, j job, _ func() time.Duration) (any, error) {
		if j.Bare != "" {
			return nil, serveBare(ctx, j.Bare)
		}
		return j.do(ctx)
	})
}

// job is to have callers wait on a limiter of a name, and to count those who get
// through for a round. They call for a round before and half a round after, so
// that all processes are at work while any of them counts.
type job struct {
	Redis, Name string
	Callers     int
	Round       time.Duration

	Bare string // the socket of a server that does nothing; that is all the job then
}

func (j job) do(ctx context.Context) (perSecond float64, err error) {
	rdb, err := backend.Connect(ctx, j.Redis)
	if err != nil {
		return 0, err
	}
	b := newBed(Scale{}, j.Redis, rdb)
	perSecond, err = rate(repeated(b.limiter(j.Name).Wait, j.Callers), j.Round, j.Round, j.Round/2)
	return perSecond, errors.Join(err, b.close())
}

// bed is what a row is measured on.
type bed struct {
	Scale
	redis  string
	rdb    *redis.Client
	prefix string // of all names

	atEnd []func() error // ends what was begun, the last first
}

// newBed has names of its own.
func newBed(s Scale, redis string, rdb *redis.Client) *bed {
	return &bed{Scale: s, redis: redis, rdb: rdb, prefix: "speed:" + rand.Text()}
}

// close ends what was begun, and removes what was left in Redis.
func (b *bed) close() (err error) {
	for _, end := range slices.Backward(b.atEnd) {
		err = errors.Join(err, end())
	}
	ctx, cancel := context.WithTimeout(context.Background(), run.Grace)
	defer cancel()
	return errors.Join(err, backend.Remove(ctx, b.rdb, b.prefix), b.rdb.Close())
}

// name is a new one.
func (b *bed) name() string { return b.prefix + ":" + rand.Text() }

// limiter is one of a name that is never short.
func (b *bed) limiter(name string) fairlimit.Limiter {
	return must(fairlimit.New(b.rdb, name, fairlimit.Quota{Permits: billion, Per: time.Second}, fairlimit.WithGuard(0)))
}

// must is for what cannot fail, since all of it stands in this package.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// served is what scripts the server has run while do ran.
func (b *bed) served(ctx context.Context, do func() error) (s backend.Served, err error) {
	before, err := backend.ServedBy(ctx, b.rdb)
	if err != nil {
		return s, err
	}
	if err := do(); err != nil {
		return s, err
	}
	after, err := backend.ServedBy(ctx, b.rdb)
	if err == nil && after.Runs == before.Runs {
		err = backend.ErrUncounted
	}
	return backend.Served{Runs: after.Runs - before.Runs, Micros: after.Micros - before.Micros}, err
}

// serveBare answers as many bytes as fairlimit serve does, on a socket.
func serveBare(ctx context.Context, path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "{\"turn\":%q,\"waited_ms\":0}\n", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// postsTo are callers over 64 connections of a socket who ask a server in a
// process of its own for turns.
func postsTo(start func(*bed, context.Context, string, string) error) callers {
	return func(ctx context.Context, b *bed) ([]call, error) {
		dir, err := os.MkdirTemp("", "fairlimit-speed-")
		if err != nil {
			return nil, err
		}
		b.atEnd = append(b.atEnd, func() error { return os.RemoveAll(dir) })
		name, socket := b.name(), filepath.Join(dir, "socket")
		if err := start(b, ctx, socket, name); err != nil {
			return nil, err
		}
		post := posts(socket, "/v1/queues/"+url.PathEscape(name)+"/turn")
		for range 1000 { // until it is there
			if err = post(ctx); err == nil || ctx.Err() != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return repeated(post, b.Callers), err
	}
}

// startBare starts a server that does nothing.
func (b *bed) startBare(_ context.Context, socket, _ string) error {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run.Ask(ctx, Role, job{Bare: socket}, new(any)) }()
	b.atEnd = append(b.atEnd, func() error { cancel(); return <-ended })
	return nil
}

// startOurs builds fairlimit and starts it.
func (b *bed) startOurs(ctx context.Context, socket, name string) error {
	program := filepath.Join(filepath.Dir(socket), "fairlimit")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/fairlimit/fairlimit/cmd/fairlimit")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("fairlimit is built in its repository: %w: %s", err, out)
	}
	cmd := exec.Command(program, "serve", name+"=1000000000/1s", "-guard", "0s", "-redis", b.redis,
		"-listen", "unix://"+socket)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	b.atEnd = append(b.atEnd, func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	})
	return nil
}

// posts asks the server of a socket for a turn.
func posts(socket, path string) call {
	client := &http.Client{Transport: &http.Transport{
		MaxConnsPerHost: sixtyFour, MaxIdleConnsPerHost: sixtyFour,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return func(context.Context) error {
		answer, err := client.Post("http://fairlimit"+path, "", nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("the server answered %s", answer.Status)
		}
		return cmp.Or(err, answer.Body.Close())
	}
}
