package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/fairlimit/fairlimit"
)

func reset(flags *flag.FlagSet) action {
	yes := flags.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *call) error {
		q, err := c.open(c.words[0])
		if err != nil {
			return err
		}
		if err := c.tellWhatGoes(ctx, q); err != nil {
			return err
		}
		if !*yes && !c.confirmed() {
			return errors.New("nothing was reset")
		}
		if err := q.Reset(ctx); err != nil {
			return err
		}
		fmt.Printf("reset\n")
		return nil
	}
}

func (c *call) tellWhatGoes(ctx context.Context, q *fairlimit.Queue) error {
	status, err := q.Status(ctx)
	if err != nil && !errors.Is(err, fairlimit.ErrState) {
		return err
	}
	fmt.Printf("%s\n  at %s\n", fit(printable(c.words[0]), width), fit(c.at, width-5))
	if err != nil {
		fmt.Printf("  holds no queue that can be read: reset deletes the key\n")
		return nil
	}
	fmt.Printf("  frees %d permits that are granted ahead; the next slot is in %s\n", status.Queued, brief(status.Delay))
	if status.Paused > 0 {
		fmt.Printf("  ends a pause of %s more\n", brief(status.Paused))
	}
	fmt.Printf("  those who sleep line up again; the upstream may see more than the quota\n")
	return nil
}

// confirmed reads a line. Its end alone is a no.
func (c *call) confirmed() bool {
	fmt.Printf("reset? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
