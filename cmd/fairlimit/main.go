// Fairlimit looks at the queues that programs share through package fairlimit,
// steers them, and runs commands when their turn comes.
//
//	fairlimit [-redis URL] [-prefix P] COMMAND ...
//
// Its manual is what `fairlimit -h` and `fairlimit help COMMAND` print. Flags may
// begin with one dash or with two.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
)

func main() { os.Exit(run(os.Args[1:])) }

// run does what the arguments say and returns the exit status.
func run(args []string) int {
	logging.Disable() // what goes wrong is told once, as an error
	c := new(connection)
	root := commands(c)
	root.SetArgs(twoDashes(args))
	cmd, err := root.ExecuteC()
	if err == nil {
		return statusOK
	}
	if !c.runs { // cobra could not understand the line
		err = misused("%w", err)
	}
	tell(err)
	if redis.IsAuthError(err) {
		_, _ = fmt.Fprint(os.Stderr, passwords)
	}
	silent := errors.Is(err, fairlimit.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, fairlimit.ErrUnreachable) || silent {
		_, _ = fmt.Fprintf(os.Stderr, whereHint, c.at)
	}
	if failed := new(failure); errors.As(err, failed) && failed.status == statusUsage {
		_, _ = fmt.Fprintf(os.Stderr, "usage: %s\n`%s -h` says more\n", cmd.UseLine(), cmd.CommandPath())
	}
	return status(err, cmd.Name() == "wait")
}

func tell(err error) {
	_, _ = fmt.Fprintf(os.Stderr, "fairlimit: %s\n", strings.TrimPrefix(err.Error(), "fairlimit: "))
}

// commands are all that there are, below the one that has no name.
func commands(c *connection) *cobra.Command {
	root := &cobra.Command{Use: "fairlimit", Version: version(), SilenceErrors: true, SilenceUsage: true}
	c.define(root.PersistentFlags())
	root.AddCommand(ls(c), look(c), pause(c), resume(c), requeue(c), reset(c), quota(c))
	root.AddCommand(wait(c), serveHTTP(c), check(c))
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long = explained(cmd.Name())
	}
	return root
}

//go:embed manual.txt
var manual string

// explained is what the manual says of a command.
func explained(name string) string {
	_, text, _ := strings.Cut(manual, "== "+name+"\n\n")
	text, _, _ = strings.Cut(text, "\n== ")
	return text
}

func version() string {
	name := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		name = info.Main.Version
	}
	return fmt.Sprintf("%s %s %s/%s", cmp.Or(name, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// oneDash is a long flag that begins with one, as those of Go programs may. No
// short flags are written together.
var oneDash = regexp.MustCompile(`^-[a-z][a-z-]`)

// twoDashes adds the dash that such flags lack, up to --.
func twoDashes(args []string) []string {
	made := append([]string{}, args...)
	for i, arg := range made {
		if arg == "--" {
			break
		}
		if oneDash.MatchString(arg) {
			made[i] = "-" + arg
		}
	}
	return made
}

// command is one that asks Redis.
func (c *connection) command(
	use, short string, args cobra.PositionalArgs, do func(ctx context.Context, words []string) error,
) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, words []string) error {
		c.runs = true
		if err := c.connect(); err != nil {
			return err
		}
		return do(cmd.Context(), words)
	}}
}
