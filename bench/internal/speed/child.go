package speed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Role, set in the environment, makes this program one of its own processes
// that measure.
const Role = "FAIRLIMIT_BENCH_SPEED"

// grace is how long a process has, once it is to end, to remove what it left in
// Redis.
const grace = 5 * time.Second

// job is what such a process is told.
type job struct {
	Task  string
	Redis string
	Scale Scale

	// For tasks that a row hands on.
	Name    string        `json:",omitempty"` // of the limiter
	Callers int           `json:",omitempty"`
	From    time.Duration `json:",omitempty"` // on the machine's monotonic clock
	Until   time.Duration `json:",omitempty"`
}

// report is what it answers.
type report struct {
	Result json.RawMessage
	Failed string
}

// Main is the life of such a process: it does its job, or leaves it when its
// standard input ends.
func Main(stdin io.Reader, stdout io.Writer) error {
	orders := json.NewDecoder(stdin)
	var j job
	if err := orders.Decode(&j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until the parent is gone, or wants no more
		cancel()
		time.Sleep(grace)
		os.Exit(1)
	}()
	var r report
	result, err := j.do(ctx)
	if err != nil {
		r.Failed = err.Error()
	}
	if r.Result, err = json.Marshal(result); err != nil {
		r.Failed = err.Error()
	}
	return json.NewEncoder(stdout).Encode(r)
}

// do finds the task among the rows and what they hand on.
func (j job) do(ctx context.Context) (result any, err error) {
	b, err := newBed(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, r := range rows {
		if r.name == j.Task {
			figures, err := r.measure(ctx, b)
			for i := range figures {
				figures[i].Row = r.name
			}
			return figures, err
		}
	}
	switch j.Task {
	case taskRate:
		return b.rateOfWait(ctx)
	case taskSleepers:
		return b.sleepers(ctx, b.waits)
	case taskTimers:
		return b.sleepers(ctx, b.sleeps)
	}
	return nil, fmt.Errorf("there is no task %q", j.Task)
}

// spawn has a process of its own do the job, and decodes its result. When ctx
// ends, the process is told to end and is waited for.
func spawn(ctx context.Context, j job, result any) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("this program does not find itself: %w", err)
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), Role+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = stdin.Close, 2*grace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a process for %s cannot be started: %w", j.Task, err)
	}
	told := json.NewEncoder(stdin).Encode(j)
	ended := cmd.Wait()
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("the process for %s did not do its job: %w",
			j.Task, errors.Join(told, ended, errors.New(first)))
	}
	if r.Failed != "" {
		return errors.New(r.Failed)
	}
	return json.Unmarshal(r.Result, result)
}
