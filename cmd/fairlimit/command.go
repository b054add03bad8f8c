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

// read makes a call of the arguments. With an error the call tells what its
// usage is.
func read(args []string) (*call, error) {
	c := &call{connection: connection{prefix: defaultPrefix}}
	c.choose(nil)
	if len(args) == 1 && (args[0] == "-version" || args[0] == "--version") {
		args = []string{"version"}
	}
	if err := c.parse(args); err != nil {
		return c, err
	}
	if c.flags.NArg() == 0 {
		return c, misused("no command")
	}
	name, args := c.flags.Arg(0), c.flags.Args()[1:]
	cmd := find(name)
	if cmd == nil {
		return c, misused("no command %s", printable(name))
	}
	c.choose(cmd)
	return c, c.readArgs(args)
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

// readArgs takes flags before, between and behind the words, until --.
func (c *call) readArgs(args []string) error {
	if at := slices.Index(args, "--"); at >= 0 {
		args, c.behind = args[:at], args[at+1:]
	}
	for len(args) > 0 {
		if err := c.parse(args); err != nil {
			return err
		}
		if args = c.flags.Args(); len(args) > 0 {
			c.words, args = append(c.words, args[0]), args[1:]
		}
	}
	if !c.command.runs() {
		c.words = append(c.words, c.behind...)
	}
	return c.count()
}

// count checks how many words there are.
func (c *call) count() error {
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

func (c *call) parse(args []string) error {
	err := c.flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return misused("%.300s", err)
	}
	return err
}
