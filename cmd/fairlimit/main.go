package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairlimit/fairlimit"
)

func main() { os.Exit(run(os.Args[1:])) }

// run does what the arguments say and returns the exit status.
func run(args []string) int {
	logging.Disable() // what goes wrong is told once, as an error
	c, err := read(args)
	if errors.Is(err, flag.ErrHelp) {
		c.printHelp()
		return statusOK
	}
	if err == nil && !c.command.alone {
		err = c.connect()
	}
	if err == nil {
		err = c.do(context.Background(), c)
	}
	if err == nil {
		return statusOK
	}
	tell(err)
	if redis.IsAuthError(err) {
		_, _ = fmt.Fprint(os.Stderr, passwords)
	}
	silent := errors.Is(err, fairlimit.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, fairlimit.ErrUnreachable) || silent {
		_, _ = fmt.Fprintf(os.Stderr, wheres, fit(c.at, width))
	}
	if errors.As(err, new(usageError)) {
		_, _ = fmt.Fprintf(os.Stderr, "usage: %s\n`%s` says more\n", c.usage(), words("fairlimit help", c.command.name))
	}
	return c.status(err)
}

func tell(err error) {
	_, _ = fmt.Fprintf(os.Stderr, "fairlimit: %s\n", strings.TrimPrefix(err.Error(), "fairlimit: "))
}

func version(*flag.FlagSet) action {
	return func(context.Context, *call) error {
		name := ""
		if info, ok := debug.ReadBuildInfo(); ok {
			name = info.Main.Version
		}
		fmt.Printf("fairlimit %s %s %s/%s\n", cmp.Or(name, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
}

func help(*flag.FlagSet) action {
	return func(_ context.Context, c *call) error {
		about := &call{}
		if name := strings.Join(c.words, ""); !about.choose(name) {
			return misused("no command %s", printable(name))
		}
		about.printHelp()
		return nil
	}
}

func (c *call) usage() string { return words("fairlimit", c.command.name, "[flags]", c.command.args) }

// words joins those that are not empty.
func words(all ...string) string { return strings.Join(strings.Fields(strings.Join(all, " ")), " ") }

// printHelp fits 80 columns.
func (c *call) printHelp() {
	fmt.Printf("usage: %s\n\nflags:\n", c.usage())
	c.flags.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Printf("  %-18s %s\n", words("-"+f.Name, kind), text)
	})
	fmt.Print(section(cmp.Or(c.command.name, "commands")))
}

//go:embed doc.go
var manual string

// section is the text of the manual below the heading that has the word.
func section(word string) string {
	for _, part := range strings.Split(strings.TrimSuffix(manual, "package main\n"), "\n// # ")[1:] {
		heading, text, _ := strings.Cut(part, "\n//\n")
		if strings.Contains(strings.ToLower(heading), word) {
			lines := strings.NewReplacer("\n// ", "\n", "\n//\t", "\n  ", "\n//", "\n").Replace("\n" + text)
			return "\n" + strings.Trim(lines, "\n") + "\n"
		}
	}
	return ""
}
