package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/quotatext"
)

// command is a word that may follow fairlimit.
type command struct {
	name   string
	args   string                     // as its usage shows them: these words it takes
	define func(*flag.FlagSet) action // its flags
	alone  bool                       // it asks no Redis
}

// commands are all that there are. Parsing, help and completion go by this
// table; the manual says what each does.
func commands() []command {
	return []command{
		{"ls", "", ls, false},
		{"look", "NAME", look, false},
		{"pause", "NAME DURATION", pause, false},
		{"reset", "NAME", reset, false},
		{"quota", "NAME [QUOTA...]", quota, false},
		{"serve", "[NAME=QUOTAS...]", serveHTTP, false},
		{"wait", "NAME -- COMMAND [ARG...]", wait, false},
		{"check", "", check, false},
		{"completion", "bash", completion, true},
		{"version", "", version, true},
		{"help", "[COMMAND]", help, true},
	}
}

// action is what a command does, once its flags are set.
type action func(ctx context.Context, c *call) error

// runs reports whether -- and another command follow, whose exit status is that
// of this one.
func (c *command) runs() bool { return strings.Contains(c.args, " -- ") }

// call is one command with its arguments.
type call struct {
	connection
	command command
	flags   *flag.FlagSet
	words   []string // that are no flags
	behind  []string // what follows --
	do      action   // nil before there is a command
}

// read makes a call of the arguments. Flags may stand before and behind each word
// up to --. With an error the call tells what its usage is.
func read(args []string) (*call, error) {
	c := &call{connection: connection{prefix: defaultPrefix}}
	c.choose("")
	if len(args) == 1 && (args[0] == "-version" || args[0] == "--version") {
		args = []string{"version"}
	}
	if at := slices.Index(args, "--"); at >= 0 {
		args, c.behind = args[:at], args[at+1:]
	}
	for {
		if err := c.flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return c, err
		} else if err != nil {
			return c, misused("%.300s", err)
		}
		if c.flags.NArg() == 0 {
			return c, c.count()
		}
		word := c.flags.Arg(0)
		args = c.flags.Args()[1:]
		if c.do != nil {
			c.words = append(c.words, word)
		} else if !c.choose(word) {
			return c, misused("no command %s", printable(word))
		}
	}
}

// choose defines the flags of a command, or those before any command, whose name
// is empty. It reports whether there is one of that name.
func (c *call) choose(name string) bool {
	none := command{"", "COMMAND ...", func(*flag.FlagSet) action { return nil }, true}
	all := append(commands(), none, command{"__complete", "LINE", complete, true})
	at := slices.IndexFunc(all, func(cmd command) bool { return cmd.name == name })
	if at < 0 {
		return false
	}
	c.flags = flag.NewFlagSet("fairlimit", flag.ContinueOnError)
	c.flags.SetOutput(io.Discard)
	c.connection.define(c.flags)
	c.command, c.do = all[at], all[at].define(c.flags)
	return true
}

// count checks how many words there are.
func (c *call) count() error {
	if c.do == nil {
		return misused("no command")
	}
	if !c.command.runs() {
		c.words = append(c.words, c.behind...)
	}
	wanted, _, _ := strings.Cut(c.command.args, " -- ")
	names, given := strings.Fields(wanted), len(c.words)
	switch {
	case given < len(names) && !strings.HasPrefix(names[given], "["):
		return misused("%s: %s is missing", c.command.name, names[given])
	case c.command.runs() && len(c.behind) == 0:
		return misused("%s: -- and a command are missing", c.command.name)
	case given > len(names) && !strings.HasSuffix(wanted, "...]"):
		return misused("%s: %s is one word too many", c.command.name, printable(c.words[len(names)]))
	case given > 0 && c.words[0] == "":
		return misused("%s: the name is empty", c.command.name)
	}
	return nil
}

// defineWithin is for what has to be the same for all users of a queue.
func defineWithin(flags *flag.FlagSet, opts *[]fairlimit.Option) {
	flags.Func("within", "the `duration` that callers give to WithPauseWithin; else 1s",
		adds(opts, fairlimit.WithPauseWithin))
}

func defineGuard(flags *flag.FlagSet, opts *[]fairlimit.Option) {
	flags.Func("guard", "lengthen every Per by this `duration`; else Per/20 up to 50ms", adds(opts, fairlimit.WithGuard))
}

// adds is for a flag that is an option.
func adds(opts *[]fairlimit.Option, option func(time.Duration) fairlimit.Option) func(string) error {
	return func(text string) error {
		d, err := quotatext.ParseDuration(text)
		*opts = append(*opts, option(d))
		return err
	}
}
