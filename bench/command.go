package main

import (
	"errors"
	"flag"
	"io"
	"net/url"
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

// commandLine is what was typed, to be typed again, without a password.
func commandLine(args []string) string {
	words := []string{"go", "run", "./bench"}
	for _, arg := range args {
		words = append(words, quoted(withoutPassword(arg)))
	}
	return strings.Join(words, " ")
}

// withoutPassword takes the password out of an address. The flag and an equals
// sign may stand before the address.
func withoutPassword(arg string) string {
	flag, address, behindFlag := "", arg, false
	if strings.HasPrefix(arg, "-") {
		if flag, address, behindFlag = strings.Cut(arg, "="); !behindFlag {
			return arg
		}
		flag += "="
	}
	if !strings.Contains(address, "://") {
		return arg
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return flag + "..." // whatever is in it
	case u.User == nil:
		return arg
	}
	u.User = url.User("...")
	return flag + u.String()
}

// quoted is the word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:=,+@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
