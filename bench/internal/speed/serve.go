package speed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/run"
)

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
	return alike(everybody, func(ctx context.Context, b *bed) (call, error) {
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
		return post, err
	})
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
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fairlimit"+path, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
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
