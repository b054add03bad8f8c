// Package enginetest is the suite that every engine must pass. An engine's own
// test calls [Run] once for each kind of server that the engine is meant for:
//
//	func TestEngine(t *testing.T) {
//		type client = redis.UniversalClient
//		server := func(t *testing.T, f func(t *testing.T, rdb client)) {
//			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//			defer rdb.Close()
//			f(t, rdb)
//		}
//		enginetest.Run(t, fair.New, server)
//	}
package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit/engine"
)

const (
	// long is a window that does not pass during a case.
	long = 10 * time.Minute

	// rounding is what an engine may round a wait up by, and what the clocks of
	// two machines may differ by within a case.
	rounding = 10 * time.Millisecond
)

var cases = slices.Concat(turns, returns, limiters, servers, steering)

// Server calls f with a new client, which nobody else uses. It may do so inside
// a [testing/synctest] bubble, and it may do so several times, each in a
// subtest. What the server holds already does not matter and is left alone. Its
// script cache is emptied.
type Server func(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient))

// Run checks the engine case by case, each in a parallel subtest that prints
// what the case is about when it fails. On a real server this takes a few
// seconds.
func Run(t *testing.T, build engine.Builder, server Server) {
	t.Helper()
	for i, c := range cases {
		t.Run(fmt.Sprintf("%02d %s", i+1, c.name), func(t *testing.T) {
			t.Parallel()
			server(t, func(t *testing.T, rdb redis.UniversalClient) {
				if err := c.check(t.Context(), build, rdb); err != nil {
					t.Errorf("%v\n\n%s", err, c.explanation)
				}
			})
		})
	}
}

// testCase is one thing that an engine must do. Its text stops at the first
// thing that is wrong, by [subject.fail].
type testCase struct {
	name        string
	explanation string // what the contract says, for whoever has to mend the engine
	text        func(*subject)
}

func (c testCase) check(ctx context.Context, build engine.Builder, rdb redis.UniversalClient) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case problem:
			err = p
		default:
			panic(p)
		}
	}()
	c.text(&subject{ctx: ctx, build: build, rdb: rdb, name: fmt.Sprintf("enginetest-%d", rand.Uint64())})
	return nil
}
