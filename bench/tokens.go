package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fairlimit/fairlimit/bench/internal/tokens"
)

const tokensIntro = `bench tokens compares limiters before an upstream that counts requests, input and output tokens.
It runs in virtual time, in a minute or two.

`

// tokensPlan is what the command line asks for.
type tokensPlan struct {
	duration time.Duration
	seed     uint64
	json     string
}

// parseTokens reads the command line behind "tokens".
func parseTokens(args []string, help io.Writer) (p tokensPlan, err error) {
	flags := flag.NewFlagSet("bench tokens", flag.ContinueOnError)
	flags.DurationVar(&p.duration, "duration", 10*time.Minute, "virtual `time` for which callers call")
	flags.Uint64Var(&p.seed, "seed", 1, "`number` that decides what callers do")
	flags.StringVar(&p.json, "json", "", "`file` for the figures as JSON; - is standard output")
	if err := readFlags(flags, args, tokensIntro, help); err != nil {
		return p, err
	}
	if p.duration < 2*time.Minute {
		return p, fmt.Errorf("-duration is %v, want at least 2m", p.duration)
	}
	return p, nil
}

// runTokens is the command "tokens".
func runTokens(ctx context.Context, args []string, stdout, stderr *os.File) error {
	p, err := parseTokens(args, stdout)
	if err != nil {
		return err
	}
	lines, table, err := outputs(p.json, stdout, stderr)
	if err != nil {
		return err
	}
	defer lines.Close()
	report, err := tokens.Run(ctx, p.seed, p.duration, stderr)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(lines).Encode(report), report.Table(table))
}
