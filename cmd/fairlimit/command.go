package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
)

// command is a word that may follow fairlimit.
type command struct {
	name string
	args string // as its usage shows them: these words it takes
	does string // one line

	define func(*flag.FlagSet) action // its flags
}

// commands are all that there are, in the order in which they are told of.
// Parsing, help and completion go by this table.
func commands() []command {
	return []command{
		{"ls", "", "list the queues that are in use or have stored quotas", ls},
		{"look", "NAME", "show the state of a queue", look},
		{"pause", "NAME DURATION", "let nobody go for a while, on any machine", pause},
		{"reset", "NAME", "forget all turns, and any pause", reset},
		{"quota", "NAME [QUOTA...]", "show, store or forget the quotas of a queue", quota},
		{"serve", "[NAME=QUOTAS...]", "let callers in any language wait, over HTTP", serveHTTP},
		{"wait", "NAME -- COMMAND [ARG...]", "run a command when its turn comes", wait},
		{"check", "", "find out whether a Redis can do what limiters need", check},
		{"completion", "bash", "print a script that completes command lines", completion},
		{"version", "", "print the version of this program", version},
		{"help", "[COMMAND]", "explain a command", help},
	}
}

// action is what a command does, once its flags are set.
type action func(ctx context.Context, c *call) error

// runs reports whether -- and another command follow, whose exit status is that
// of this one.
func (c *command) runs() bool { return c != nil && strings.Contains(c.args, " -- ") }

// call is one command with its arguments.
type call struct {
	connection
	command *command // nil if there is none of that name
	flags   *flag.FlagSet
	words   []string // that are no flags
	behind  []string // what follows --
	do      action
}

// read makes a call of the arguments. Flags may stand before and behind each word
// up to --. With an error the call tells what its usage is.
func read(args []string) (*call, error) {
	c := &call{connection: connection{prefix: defaultPrefix}}
	c.choose(nil)
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
		if c.command != nil {
			c.words = append(c.words, word)
		} else if cmd := find(word); cmd != nil {
			c.choose(cmd)
		} else {
			return c, misused("no command %s", printable(word))
		}
	}
}

// find returns nil if there is no command of that name.
func find(name string) *command {
	all := append(commands(), command{"__complete", "LINE", "", complete})
	at := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// choose defines the flags of a command, or those before any command.
func (c *call) choose(cmd *command) {
	c.command, c.flags = cmd, flag.NewFlagSet("fairlimit", flag.ContinueOnError)
	c.flags.SetOutput(io.Discard)
	c.connection.define(c.flags)
	if cmd != nil {
		c.do = cmd.define(c.flags)
	}
}

// count checks how many words there are.
func (c *call) count() error {
	if c.command == nil {
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
