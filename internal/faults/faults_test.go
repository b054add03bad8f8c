package faults_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
	"github.com/fairlimit/fairlimit/internal/timeout"
)

// TestMain holds the whole binary to what a limiter promises: no goroutine is
// left when nobody uses it.
func TestMain(m *testing.M) {
	redistest.Parallel(12)
	redistest.Main(m)
}

// The words that all tests of limiters share.
var (
	limiter = limitertest.New
	named   = limitertest.Named
	status  = limitertest.Status
	calls   = limitertest.Calls
	engines = limitertest.Engines
)

// maker makes limiters on one engine.
type maker func(
	t *testing.T, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
) fairlimit.Limiter

// onEngines runs f for each engine, in parallel.
func onEngines(t *testing.T, f func(t *testing.T, build maker)) {
	for name, e := range engines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, func(
				t *testing.T, rdb redis.UniversalClient, name string, quota fairlimit.Quota, opts ...fairlimit.Option,
			) fairlimit.Limiter {
				t.Helper()
				l, err := fairlimit.New(rdb, name, quota, append(opts, e)...)
				require.NoError(t, err)
				return l
			})
		})
	}
}

// late is how long after its deadline a caller may return: less than any timeout
// of a client, so that it shows if somebody waits for one. To the moment, that
// callers are back is tested on a fake clock.
const late = time.Second

// prompt fails the test if a call with a deadline is back too late.
func prompt(t *testing.T, patience time.Duration, what string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return back(t, ctx, patience, what, call)
}

// overdue is the same for a call without a deadline: it is back when its question
// has had its time.
func overdue(t *testing.T, what string, call func(context.Context) error) error {
	return back(t, context.WithoutCancel(t.Context()), timeout.Answer, what, call)
}

func back(
	t *testing.T, ctx context.Context, patience time.Duration, what string, call func(context.Context) error,
) error {
	start := time.Now()
	err := call(ctx)
	assert.LessOrEqual(t, time.Since(start), patience+late, what)
	return err
}

// crowd is callers that ask for a permit again and again, and what they got.
type crowd struct {
	went, refused, unknown atomic.Int64
	stop                   func() // returns when all have ended
}

// startCrowd starts a crowd. Any error but [fairlimit.ErrOutcomeUnknown] has to
// be one that may come.
func startCrowd(t *testing.T, l fairlimit.Limiter, callers int, pause time.Duration, may func(error) bool) *crowd {
	c := &crowd{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				allowed, err := l.Allow(context.WithoutCancel(ctx))
				switch {
				case allowed:
					c.went.Add(1)
				case err == nil:
					c.refused.Add(1)
				case errors.Is(err, fairlimit.ErrOutcomeUnknown):
					c.unknown.Add(1)
				default:
					assert.True(t, may(err), "%v", err)
				}
				time.Sleep(pause) // or the permits would be gone at once
			}
		})
	}
	c.stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(c.stop)
	return c
}

func noError(error) bool { return false }

// accounts requires that each call that succeeded consumed once, each without an
// answer once or not at all, and no other.
func accounts(t *testing.T, used int, went, unknown int64) {
	t.Helper()
	t.Logf("%d went, %d left open, %d used", went, unknown, used)
	assert.GreaterOrEqual(t, int64(used), went)
	assert.LessOrEqual(t, int64(used), went+unknown)
}

// TestTheDocumentNamesTestsThatExist reads docs/RELIABILITY.md. A name there
// may end with "…".
func TestTheDocumentNamesTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	document, err := os.ReadFile(filepath.Join(root, "docs", "RELIABILITY.md"))
	require.NoError(t, err)
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	names := regexp.MustCompile("`(Test\\w+)(…?)`").FindAllStringSubmatch(string(document), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		declared := "func " + name[1]
		if name[2] == "" {
			declared += "("
		}
		assert.True(t, strings.Contains(tests.String(), declared), "there is no %s%s", name[1], name[2])
	}
	for _, file := range regexp.MustCompile("`([\\w/]+_test\\.go)`").FindAllStringSubmatch(string(document), -1) {
		assert.FileExists(t, filepath.Join(root, file[1]))
	}
}
