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

// complete is what the script asks: what the last word of a line, up to the
// cursor, may become.
func complete(*flag.FlagSet) action {
	return func(ctx context.Context, c *call) error {
		line := c.words[0]
		at := strings.LastIndexByte(line, ' ') + 1
		for _, word := range candidates(ctx, strings.Fields(line[:at]), line[at:]) {
			if strings.HasPrefix(word, line[at:]) {
				fmt.Println(word)
			}
		}
		return nil
	}
}

// candidates are what may stand behind these words.
func candidates(ctx context.Context, words []string, last string) (all []string) {
	if len(words) == 0 || slices.Contains(words, "--") {
		return nil
	}
	c, err := read(words[1:]) // the error of a line that has no end yet
	if err != nil && strings.HasPrefix(err.Error(), "flag needs an argument") {
		return nil
	}
	if strings.HasPrefix(last, "-") {
		c.flags.VisitAll(func(f *flag.Flag) { all = append(all, "-"+f.Name) })
		return all
	}
	wanted := append(strings.Fields(c.command.args), "")[0]
	switch {
	case len(c.words)+c.flags.NArg() > 0: // there is one, or a command that does not exist
	case strings.Trim(wanted, "[]") == "COMMAND":
		for _, cmd := range commands() {
			all = append(all, cmd.name)
		}
	case wanted == "NAME":
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // for which a person waits after pressing tab
		defer cancel()
		if c.connect() != nil {
			return nil
		}
		names, _ := c.names(ctx) // a line cannot show an error while it is typed
		return slices.DeleteFunc(names, func(name string) bool { return printable(name) != name })
	case wanted == "bash":
		return []string{wanted}
	}
	return all
}
