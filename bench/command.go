package main

import (
	"errors"
	"flag"
	"io"
	"regexp"
	"strings"
)

// asked is what a command line asks for, as parse reads it. If nothing is left
// to do, done is true: what was to be said is said, and status is what to end
// with.
func asked[T any](
	parse func(args []string, help io.Writer) (T, error), args []string, stdout, stderr io.Writer,
) (p T, status int, done bool) {
	p, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return p, fine, true
	case err != nil:
		return p, refuse(stderr, err), true
	}
	return p, fine, false
}

var (
	password = regexp.MustCompile(`//.*@`) // of an address
	plain    = regexp.MustCompile(`^[\w\-./:=,+@%]+$`)
)

// commandLine is what was typed, to be typed again, without a password.
func commandLine(args []string) string {
	words := []string{"go", "run", "./bench"}
	for _, arg := range args {
		arg = password.ReplaceAllString(arg, "//...@")
		if !plain.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
