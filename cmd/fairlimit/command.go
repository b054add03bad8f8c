package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// commands are all that there are, in the order in which they are told of.
var commands = []command{
	lsCommand, lookCommand, pauseCommand, resetCommand, quotaCommand, waitCommand,
	completionCommand, versionCommand, helpCommand, candidatesCommand,
}

// command is a word that may follow fairlimit.
type command struct {
	name string
	args string // as its usage shows them
	does string // one line

	more         string // what its help says beside
	fewest, most int    // words that are no flags; most < 0 is any number
	takesCommand bool   // it is followed by -- and a command
	passesStatus bool   // its exit status is that of the command
	hidden       bool

	define func(*flag.FlagSet) action // its flags
}

// action is what a command does, once its flags are set.
type action func(ctx context.Context, c *call) error

// call is one command with its arguments.
type call struct {
	*program
	*connection
	command *command // nil if there is none of that name
	flags   *flag.FlagSet
	words   []string // that are no flags
	behind  []string // those behind --, of a command that takes a command
	do      action
}

var errHelp = errors.New("help is wanted")

// read makes a call of the arguments. With an error the call tells what its
// usage is.
func (p *program) read(args []string) (*call, error) {
	c := &call{program: p, connection: newConnection(p.getenv), flags: newFlags()}
	c.connection.define(c.flags)
	if len(args) == 1 && (args[0] == "-version" || args[0] == "--version") {
		args = []string{versionCommand.name}
	}
	if err := parse(c.flags, args); err != nil {
		return c, err
	}
	if c.flags.NArg() == 0 {
		return c, misused("no command")
	}
	name, args := c.flags.Arg(0), c.flags.Args()[1:]
	if c.command = p.find(name); c.command == nil {
		return c, misused("no command %s", printable(name))
	}
	c.flags = newFlags()
	c.connection.define(c.flags)
	c.do = c.command.define(c.flags)
	return c, c.readArgs(args)
}

// readArgs takes flags before, between and behind the words, and the command
// behind --.
func (c *call) readArgs(args []string) error {
	at := slices.Index(args, "--")
	if !c.command.takesCommand {
		return c.readWords(args)
	}
	if at >= 0 {
		args, c.behind = args[:at], args[at+1:]
	}
	err := c.readWords(args)
	if errors.As(err, new(usageError)) && at < 0 && len(c.words) > c.command.most {
		return misused("%v; is -- missing before the command?", err)
	}
	return err
}

func (c *call) readWords(args []string) error {
	for len(args) > 0 {
		if err := parse(c.flags, args); err != nil {
			return err
		}
		rest := c.flags.Args()
		if ended := len(rest) < len(args) && args[len(args)-len(rest)-1] == "--"; ended {
			c.words = append(c.words, rest...)
			break
		}
		if len(rest) > 0 {
			c.words, rest = append(c.words, rest[0]), rest[1:]
		}
		args = rest
	}
	return c.count()
}

// count checks how many words there are.
func (c *call) count() error {
	switch names := strings.Fields(c.command.args); {
	case len(c.words) < c.command.fewest:
		return misused("%s: %s is missing", c.command.name, names[len(c.words)])
	case c.command.most >= 0 && len(c.words) > c.command.most:
		return misused("%s: %s is one word too many", c.command.name, printable(c.words[c.command.most]))
	case c.command.takesCommand && len(c.behind) == 0:
		return misused("%s: -- and a command are missing", c.command.name)
	case c.command.fewest > 0 && c.words[0] == "":
		return misused("%s: the name is empty", c.command.name)
	}
	return nil
}

func (p *program) find(name string) *command {
	at := slices.IndexFunc(p.commands, func(c command) bool { return c.name == name })
	if at < 0 {
		return nil
	}
	return &p.commands[at]
}

func newFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("fairlimit", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return errHelp
	} else if err != nil {
		return usageError(fmt.Sprintf("%.300s", err))
	}
	return nil
}
