package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

//go:embed completion.bash
var bashScript string

func completion(*flag.FlagSet) action {
	return func(_ context.Context, c *call) error {
		if c.words[0] != "bash" {
			return misused("completion: there is one for bash only")
		}
		fmt.Print(bashScript)
		return nil
	}
}

// complete is what the script asks.
func complete(*flag.FlagSet) action {
	return func(ctx context.Context, c *call) error {
		for _, candidate := range candidates(ctx, c.words[0]) {
			fmt.Println(candidate)
		}
		return nil
	}
}

// namesTimeout is how long a person waits for names after pressing tab.
const namesTimeout = 2 * time.Second

// candidates are what the last word of a line, up to the cursor, may become.
func candidates(ctx context.Context, line string) (all []string) {
	at := strings.LastIndexByte(line, ' ') + 1
	last, words := line[at:], strings.Fields(line[:at])
	if len(words) == 0 || slices.Contains(words, "--") {
		return nil
	}
	c, err := read(words[1:]) // the error of a line that has no end yet
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "flag needs an argument"):
	case strings.HasPrefix(last, "-"):
		c.flags.VisitAll(func(f *flag.Flag) { all = append(all, "-"+f.Name) })
	case c.command != nil && len(c.words) == 0:
		all = c.firstWords(ctx)
	case c.command == nil && c.flags.NArg() == 0:
		all = commandNames()
	}
	return slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, last) })
}

// firstWords are what the first word of a command may be.
func (c *call) firstWords(ctx context.Context) []string {
	switch words := strings.Fields(c.command.args); {
	case len(words) > 0 && words[0] == "NAME":
		ctx, cancel := context.WithTimeout(ctx, namesTimeout)
		defer cancel()
		names, _ := c.names(ctx) // a line cannot show an error while it is typed
		return slices.DeleteFunc(names, func(name string) bool { return printable(name) != name })
	case c.command.name == "help":
		return commandNames()
	case len(words) > 0 && words[0] == "bash":
		return words
	}
	return nil
}

func commandNames() (names []string) {
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}
