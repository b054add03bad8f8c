package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// program is one run: what it reads, where it writes, and what it can do.
type program struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // out is a terminal that can be drawn on
	getenv   func(string) string
	commands []command
}

func thisProcess() *program {
	redis.SetLogger(silence{})
	return &program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: isTerminal(os.Stdout) && os.Getenv("TERM") != "dumb",
		getenv: os.Getenv, commands: commands,
	}
}

// isTerminal takes every character device for one: what is drawn on /dev/null
// harms nobody.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// silence is the logger of go-redis: what goes wrong is told once, as an error.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// run does what the arguments say and returns the exit status.
func (p *program) run(args []string) int {
	c, err := p.read(args)
	if errors.Is(err, errHelp) {
		c.printHelp(p.out)
		return statusOK
	}
	if err == nil {
		err = c.do(context.Background(), c)
	}
	if err == nil {
		return statusOK
	}
	p.tell(err)
	if redis.IsAuthError(err) {
		_, _ = fmt.Fprint(p.err, passwords)
	}
	if foundNobody(err) {
		_, _ = fmt.Fprintf(p.err, wheres, fit(c.at, width))
	}
	if errors.As(err, new(usageError)) {
		c.printUsage(p.err)
	}
	return c.status(err)
}

func (p *program) tell(err error) {
	_, _ = fmt.Fprintf(p.err, "fairlimit: %s\n", strings.TrimPrefix(err.Error(), "fairlimit: "))
}

func (p *program) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format, args...)
}
