package simulate

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

// Main is the life of the simulating process: it reads its job from standard
// input, simulates until that ends or the job is done, and tells on standard
// output. It does not return.
//
// Only a test can have a bubble, so this is a test. [testing.Main] is kept for
// programs that are not test binaries and run tests all the same. What it
// prints comes after the last of the news, where nobody listens.
func Main() {
	signal.Ignore(os.Interrupt) // a terminal sends it to everybody; the parent is in charge
	runtime.GOMAXPROCS(1)       // there is one thing to do at a time, and handing it over costs

	// The stacks of ten thousand callers are much to look through, and there is
	// nothing to free.
	debug.SetGCPercent(gcPercent)

	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{
		{Name: "simulation", F: func(t *testing.T) { simulate(t, os.Stdin, os.Stdout) }},
	}, nil, nil)
}

func simulate(t *testing.T, orders io.Reader, told io.Writer) {
	buffer := bufio.NewWriterSize(told, 1<<16)
	defer buffer.Flush()
	encoder := gob.NewEncoder(buffer)
	tell := func(n news) {
		if err := encoder.Encode(n); err != nil {
			t.Fatal(err) // the parent is gone
		}
	}
	fail := func(err error) { tell(news{Done: &done{Failed: err.Error()}}) }

	var j job
	if err := gob.NewDecoder(orders).Decode(&j); err != nil {
		fail(fmt.Errorf("no job: %w", err))
		return
	}
	stopped, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, orders)
		stop()
	}()
	synctest.Test(t, func(t *testing.T) {
		w, err := build(t, j)
		if err != nil {
			fail(err)
			return
		}
		defer w.close()
		w.run(func() bool { return stopped.Err() != nil }, func(g glance) {
			tell(news{Glance: &g})
			if err := buffer.Flush(); err != nil {
				t.Fatal(err)
			}
		})
		for i := 0; i < len(w.calls); i += chunk {
			tell(news{Calls: w.calls[i:min(len(w.calls), i+chunk)]})
		}
		tell(news{Done: &done{At: w.end, RedisCalls: w.asked}})
	})
}

const gcPercent = 400

// chunk is how many calls are told at once.
const chunk = 1024
