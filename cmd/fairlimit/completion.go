package main

import (
	"context"
	_ "embed"
	"flag"
	"slices"
	"strings"
	"time"
)

//go:embed completion.bash
var bashScript string

var completionCommand = command{
	name: "completion", args: "bash", does: "print a script that completes command lines",
	more:   `Put this into ~/.bashrc: source <(fairlimit completion bash)`,
	fewest: 1, most: 1,
	define: func(*flag.FlagSet) action {
		return func(_ context.Context, c *call) error {
			if c.words[0] != "bash" {
				return misused("completion: there is one for bash only")
			}
			c.printf("%s", bashScript)
			return nil
		}
	},
}

// candidatesCommand is what the script asks.
var candidatesCommand = command{
	name: "__complete", args: "LINE", does: "print what may stand at the end of a command line",
	fewest: 1, most: 1, hidden: true,
	define: func(*flag.FlagSet) action {
		return func(ctx context.Context, c *call) error {
			for _, candidate := range c.candidates(ctx, c.words[0]) {
				c.printf("%s\n", candidate)
			}
			return nil
		}
	},
}

// namesTimeout is how long a person waits for names after pressing tab.
const namesTimeout = 2 * time.Second

// candidates are what the last word of a line, up to the cursor, may become.
func (p *program) candidates(ctx context.Context, line string) (all []string) {
	words := strings.Split(line, " ")
	last := words[len(words)-1]
	words = slices.DeleteFunc(words[:len(words)-1], func(word string) bool { return word == "" })
	c, open := p.typed(words)
	switch {
	case open || c == nil:
	case strings.HasPrefix(last, "-"):
		c.flags.VisitAll(func(f *flag.Flag) { all = append(all, "-"+f.Name) })
	case c.command == nil:
		for _, other := range p.commands {
			if !other.hidden {
				all = append(all, other.name)
			}
		}
	case len(c.words) > 0:
	case strings.HasPrefix(c.command.args, "NAME"):
		ctx, cancel := context.WithTimeout(ctx, namesTimeout)
		defer cancel()
		all, _ = c.names(ctx) // a line cannot show an error while it is typed
		all = slices.DeleteFunc(all, func(name string) bool { return printable(name) != name })
	case c.command.name == "help":
		all = p.candidates(ctx, "fairlimit ")
	case c.command.name == "completion":
		all = []string{"bash"}
	}
	return slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, last) })
}

// typed is the call so far, nil behind --. It is open if the value of a flag
// comes next.
func (p *program) typed(words []string) (c *call, open bool) {
	c = &call{program: p, connection: newConnection(p.getenv), flags: newFlags()}
	c.connection.define(c.flags)
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--":
			return nil, false
		case strings.HasPrefix(word, "-"):
			if takesValue(c.flags, word) {
				if i++; i == len(words) {
					return c, true
				}
				_ = c.flags.Parse([]string{word, words[i]})
				continue
			}
			_ = c.flags.Parse([]string{word})
		case c.command == nil:
			if c.command = p.find(word); c.command == nil {
				return nil, false
			}
			c.flags = newFlags()
			c.connection.define(c.flags)
			c.command.define(c.flags)
		default:
			c.words = append(c.words, word)
		}
	}
	return c, false
}

// takesValue reports whether the flag's value is the next word.
func takesValue(flags *flag.FlagSet, word string) bool {
	f := flags.Lookup(strings.TrimLeft(word, "-"))
	if f == nil {
		return false
	}
	b, isBool := f.Value.(interface{ IsBoolFlag() bool })
	return !isBool || !b.IsBoolFlag()
}
