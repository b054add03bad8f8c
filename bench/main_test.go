package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/embedded"
)

// asMain, set in the environment, makes the test binary the program.
const asMain = "FAIRLIMIT_BENCH_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a run of the program, not yet started.
type program struct {
	*exec.Cmd
	stdout bytes.Buffer
}

func bench(t *testing.T, args ...string) *program {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	p := &program{Cmd: exec.CommandContext(t.Context(), path, args...)}
	// Without GORACE every process ends a second late.
	p.Env = append(os.Environ(), asMain+"=1", "TMPDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = stderr.Close() })
	p.Stdout, p.Stderr = &p.stdout, stderr
	return p
}

// said is what it has printed to standard error so far.
func (p *program) said() string {
	text, _ := os.ReadFile(p.Stderr.(*os.File).Name())
	return string(text)
}

// status is what the program ends with.
func (p *program) status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return p.ProcessState.ExitCode()
}

func TestWhatCannotBeDoneIsToldInOneLine(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := nobody.Addr().String()
	require.NoError(t, nobody.Close())

	for args, says := range map[string]string{
		"-nothing":                         "-h", // no such flag
		"steady":                           "-h", // an argument
		"-scenario nothing":                "-list",
		"-engines fair,nothing":            "-list",
		"-scenario tokens -engines window": `no "window"`, // it counts none
		"-quota 20":                        "20/1s",
		"-quota 0/1s":                      "too few",
		"-quota 1/1h":                      "-duration", // too short
		"-burst 21":                        "-burst",
		"-guard -1s":                       "-guard",
		"-clients 0":                       "-clients",
		"-json /dev/null/x":                "-json",
		"-out /dev/null/x":                 "-out",
		"-redis " + away:                   "leave -redis out",
		"speed -nothing":                   "-h",

		"speed":                "no redis-server in PATH",
		"speed -redis " + away: "leave -redis out",
	} {
		t.Run(args, func(t *testing.T) {
			p := bench(t, strings.Fields(args)...)
			p.Env = append(p.Env, "PATH="+t.TempDir(), "FAIRLIMIT_REDIS_SERVER=")
			require.Equal(t, 2, p.status(t, p.Run()))
			require.Empty(t, p.stdout.String())
			require.Equal(t, 1, strings.Count(p.said(), "\n"), p.said())
			require.Contains(t, p.said(), says)
		})
	}
}

func TestHelpAndListAreNoErrors(t *testing.T) {
	for args, shows := range map[string]string{
		"-h": "-guard duration", "-list": "burst", "speed -h": "-rows text",
	} {
		p := bench(t, strings.Fields(args)...)
		require.Zero(t, p.status(t, p.Run()))
		require.Contains(t, p.stdout.String(), shows)
		require.Empty(t, p.said())
	}
}

// figures are the parts of the JSON that the tests look at.
type figures struct {
	Scenario string
	Backend  string
	Seconds  float64
	ApartMS  float64 `json:"apart_ms"`
	Goal     *struct{ Met bool }
	Engines  []map[string]any
}

func read(t *testing.T, stdout []byte) (all []figures) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(stdout))
	for decoder.More() {
		var one figures
		require.NoError(t, decoder.Decode(&one))
		all = append(all, one)
	}
	return all
}

// succeeds runs the program until nothing goes wrong. Processes that get no
// processor for seconds are the machine's fault: then calls fail, the program
// says so, and has another try.
func succeeds(t *testing.T, args ...string) (p *program, all []figures) {
	t.Helper()
	for range 5 {
		p = bench(t, append(args, "-json", "-", "-out", "none")...)
		if p.status(t, p.Run()) == 0 {
			return p, read(t, p.stdout.Bytes())
		}
		t.Log(p.said())
	}
	require.Fail(t, "something went wrong each time")
	return p, nil
}

func TestCtrlCReportsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	p := bench(t, "-scenario", "all", "-duration", "24s", "-engines", "fair", "-json", "-", "-redis", server.Addr(),
		"-quota", "5/100ms", "-guard", "10ms", "-clients", "2")
	require.NoError(t, p.Start())
	// Told after a second, when only the first scenario has begun.
	through := regexp.MustCompile(`, [1-9][0-9]* grants so far`)
	require.Eventually(t, func() bool { return through.MatchString(p.said()) },
		50*time.Second, 10*time.Millisecond, "nobody has called")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	// 1 says that calls failed, as on so busy a machine they may.
	require.Contains(t, []int{0, 1}, p.status(t, p.Wait()), p.said())
	all := read(t, p.stdout.Bytes())
	require.Len(t, all, 1)
	require.Greater(t, all[0].Engines[0]["grants"], 0.0)
	require.Less(t, all[0].Engines[0]["seconds"], all[0].Seconds-0.1, "it did not go on to the end")
	require.Contains(t, p.said(), "ended after")
	left, err := server.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, left, "the run cleans up behind itself")
}
