package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func look(flags *flag.FlagSet) action {
	watch := flags.Bool("watch", false, "show it every second, until interrupted")
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	return func(ctx context.Context, c *call) error {
		screen := &screen{}
		show := func() error {
			v, err := c.look(ctx, c.words[0])
			if err != nil {
				return err
			}
			return screen.show(v, *watch, *asJSON)
		}
		if err := show(); err != nil || !*watch {
			return err
		}
		return everySecond(ctx, func() error {
			err := show()
			if isUnreachable(err) {
				screen.complain(err)
				return nil
			}
			return err
		})
	}
}

// everySecond shows until it fails, or until a signal ends it, which is no
// error.
func everySecond(ctx context.Context, show func() error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := show(); err != nil {
			return err
		}
	}
}

// screen is where views are shown, one after the other.
type screen struct {
	drawn int // lines that the next view takes the place of
}

// complain tells of an error that may pass. The next view stands below it.
func (s *screen) complain(err error) {
	tell(err)
	s.drawn = 0
}

func (s *screen) show(v view, watch, asJSON bool) error {
	switch {
	case asJSON:
		text, err := json.Marshal(v)
		fmt.Printf("%s\n", text)
		return err
	case watch && !onTerminal():
		fmt.Printf("%s\n", v.line(time.Now()))
		return nil
	}
	lines := v.lines()
	if s.drawn > 0 {
		fmt.Printf("\x1b[%dA\x1b[J", s.drawn) // up, and clear what is below
	}
	fmt.Printf("%s\n", strings.Join(lines, "\n"))
	if watch {
		s.drawn = len(lines)
	}
	return nil
}

// onTerminal reports whether standard output is a terminal that can be drawn
// on. It takes every character device for one: what is drawn on /dev/null harms
// nobody.
func onTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
