package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// Role, in the environment, makes this program one of its own processes.
const Role = "FAIRLIMIT_BENCH_ROLE"

// Self starts this program in a role.
func Self(role string) (func() *exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program does not find itself: %w", err)
	}
	return func() *exec.Cmd {
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), Role+"="+role)
		return cmd
	}, nil
}

// begin starts a process and gives it its job. It is to end when its orders do.
func begin(cmd *exec.Cmd, job any) (orders io.WriteCloser, news *json.Decoder, err error) {
	orders, err = cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_ = json.NewEncoder(orders).Encode(job) // if this fails, the process has ended
	}
	return orders, json.NewDecoder(stdout), err
}

// Grace is how long a process that does a job has, once it is to end, to put
// things in order.
const Grace = 5 * time.Second

// answer is what came of a job.
type answer struct {
	Error  string
	Result json.RawMessage
}

// Ask has a process of a role do a job, and decodes its result. When ctx ends,
// the process is told to end; what it has until then is its result.
func Ask(ctx context.Context, role string, job, result any) error {
	command, err := Self(role)
	if err != nil {
		return err
	}
	cmd := command()
	cmd.Stderr = os.Stderr
	orders, news, err := begin(cmd, job)
	if err != nil {
		return err
	}
	defer orders.Close()
	defer context.AfterFunc(ctx, func() { _ = orders.Close() })()
	var got answer
	failed := news.Decode(&got)
	ended := cmd.Wait()
	switch {
	case got.Error != "":
		return errors.New(got.Error)
	case failed != nil:
		return fmt.Errorf("the process that was to do it: %w", errors.Join(ended, failed))
	}
	return json.Unmarshal(got.Result, result)
}

// Answer is the life of a process that does a job: it does not return. It ends
// early when its standard input does.
func Answer[J any](do func(context.Context, J) (any, error)) {
	signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
	ctx, cancel := context.WithCancel(context.Background())
	orders := json.NewDecoder(os.Stdin)
	var job J
	var result any
	err := orders.Decode(&job)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone, or wants no more
		cancel()
		time.Sleep(Grace)
		os.Exit(1)
	}()
	if err == nil {
		result, err = do(ctx, job)
	}
	var told answer
	if err != nil {
		told.Error = err.Error()
	} else {
		told.Result, err = json.Marshal(result)
	}
	if failed := json.NewEncoder(os.Stdout).Encode(told); err != nil || failed != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
