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
	"slices"
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

// do is a group of rows, or a task that a row hands on.
func (j job) do(ctx context.Context) (result any, err error) {
	b, err := newBed(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	switch j.Task {
	case taskRate:
		return b.rateOfWait(ctx)
	case taskSleepers:
		return b.asleep(ctx, b.waits)
	case taskTimers:
		return b.asleep(ctx, b.sleeps)
	default:
		return b.group(ctx, j.Task)
	}
}

// taken is what the rows of a group gave.
type taken struct {
	Figures []Figure
	Failed  []string
}

// group measures the rows of a group. Of rows with several figures, the first
// of all come first.
func (b *bed) group(ctx context.Context, name string) (t taken, err error) {
	var by [][]Figure
	for _, r := range rows {
		if r.group != name {
			continue
		}
		figures, err := r.measure(ctx, b)
		if err != nil {
			t.Failed = append(t.Failed, err.Error())
		}
		for i, f := range figures {
			if i == len(by) {
				by = append(by, nil)
			}
			by[i] = append(by[i], f)
		}
	}
	t.Figures = slices.Concat(by...)
	return t, nil
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
