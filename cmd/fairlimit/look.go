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
		s := screen{json: *asJSON, lines: *watch && !onTerminal()}
		show := func() error {
			v, err := c.look(ctx, c.words[0])
			if err != nil {
				return err
			}
			return s.show(v)
		}
		if err := show(); err != nil || !*watch {
			return err
		}
		ctx, stop := untilSignal(ctx)
		defer stop()
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
			case <-ctx.Done():
				return nil
			}
			if err := show(); isUnreachable(err) {
				tell(err) // it may pass
				s.drawn = 0
			} else if err != nil {
				return err
			}
		}
	}
}

// screen is where views are shown, one in the place of the other.
type screen struct {
	json, lines bool
	drawn       int // lines that the next view takes the place of
}

func (s *screen) show(v view) error {
	switch {
	case s.json:
		return json.NewEncoder(os.Stdout).Encode(v)
	case s.lines:
		fmt.Println(v.line(time.Now()))
		return nil
	}
	if s.drawn > 0 {
		fmt.Printf("\x1b[%dA\x1b[J", s.drawn) // up, and clear what is below
	}
	t := v.table()
	fmt.Println(strings.Join(t, "\n"))
	s.drawn = len(t)
	return nil
}

// onTerminal reports whether standard output is a terminal that can be drawn
// on. It takes every character device for one: what is drawn on /dev/null harms
// nobody.
func onTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
