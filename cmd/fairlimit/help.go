package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

var helpCommand = command{
	name: "help", args: "[COMMAND]", does: "explain a command",
	most: 1,
	define: func(*flag.FlagSet) action {
		return func(_ context.Context, c *call) error {
			about := &call{program: c.program, connection: c.connection, flags: newFlags()}
			about.connection.define(about.flags)
			if len(c.words) > 0 {
				about.command = c.find(c.words[0])
				if about.command == nil {
					return misused("no command %s", printable(c.words[0]))
				}
				about.command.define(about.flags)
			}
			about.printHelp(c.out)
			return nil
		}
	},
}

// printUsage is what follows an error of usage.
func (c *call) printUsage(to io.Writer) {
	name := ""
	if c.command != nil {
		name = " " + c.command.name
	}
	_, _ = fmt.Fprintf(to, "usage: %s\n`fairlimit help%s` says more\n", c.usage(), name)
}

func (c *call) usage() string {
	if c.command == nil {
		return "fairlimit [-redis URL] [-prefix P] COMMAND ..."
	}
	return strings.TrimSpace("fairlimit " + c.command.name + " [flags] " + c.command.args)
}

// printHelp fits 80 columns.
func (c *call) printHelp(to io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n", c.usage())
	if c.command == nil {
		b.WriteString("Looks at the queues of package fairlimit in a Redis, and steers them.\n\ncommands:\n")
		for _, other := range c.commands {
			if !other.hidden {
				fmt.Fprintf(&b, "  %-11s %s\n", other.name, other.does)
			}
		}
		b.WriteString("\nflags of every command:\n")
	} else {
		fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(c.command.does[:1]), c.command.does[1:])
		if c.command.more != "" {
			fmt.Fprintf(&b, "%s\n", c.command.more)
		}
		b.WriteString("\nflags:\n")
	}
	c.flags.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  %-18s %s\n", strings.TrimSpace("-"+f.Name+" "+kind), text)
	})
	_, _ = io.WriteString(to, b.String())
}
