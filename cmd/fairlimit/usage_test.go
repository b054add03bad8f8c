package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nobody listens at port 1: what fails there fails before it asks.
var nowhere = []string{"FAIRLIMIT_REDIS=127.0.0.1:1"}

func TestWhatCannotBeUnderstoodIsToldWithTheUsage(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"":                                "no command",
		"-redis 127.0.0.1:1":              "no command",
		"lock":                            "no command lock",
		"-nix ls":                         "not defined: -nix",
		"ls -nix":                         "not defined: -nix",
		"ls more":                         "ls: more is one word too many",
		"look":                            "look: NAME is missing",
		"look a b":                        "look: b is one word too many",
		"pause a":                         "pause: DURATION is missing",
		"pause a 30":                      "pause: 30: the unit is missing, as in 30ms, 30s or 30m",
		"pause a soon":                    "pause: soon: want a duration, such as 50ms",
		"pause a -5s":                     "not defined: -5s",
		"pause -- a -5s":                  "pause: -5s: want more than 0",
		"pause a 0s":                      "pause: 0s: want more than 0",
		"pause a 5s -within soon":         `invalid value "soon" for flag -within: want a duration`,
		"quota a 20":                      `quota: duration of "20"`,
		"quota a 20/60":                   `duration of "20/60": the unit is missing, as in 60ms, 60s`,
		"quota a 20/50ns":                 "50ns is less than a microsecond",
		"pause a 50ns":                    "50ns is less than a microsecond",
		"quota a 0/1s":                    "want at least 1",
		"quota a 20/1s -forget":           "quota: -forget goes without quotas",
		"completion csh":                  "for bash only",
		"help lock":                       "no command lock",
		"-redis http://x ls":              "want redis://",
		"-redis redis://x/y ls":           `invalid database number: "y"`,
		"-redis redis://x?y=z ls":         "unexpected option: y",
		"-redis foo://x ls":               "is no host:port; want redis://, rediss://",
		"-redis x:y ls":                   "address 1 is no host:port",
		"-redis redis+sentinel://x ls":    "the master's name is missing",
		"-redis redis+cluster://x/1 ls":   "no database but 0",
		"-redis redis://x?skip_verify ls": "skip_verify is true or false",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r := finish(t, process(nowhere, strings.Fields(line)...))
			assert.Equal(t, 2, r.status)
			assert.Empty(t, r.out)
			assert.Contains(t, r.err, "fairlimit: ")
			assert.Contains(t, r.err, says)
			assert.Contains(t, r.err, "\nusage: fairlimit ")
		})
	}
}

func TestAnEmptyNameIsAnErrorOfUsage(t *testing.T) {
	t.Parallel()
	r := finish(t, process(nowhere, "look", ""))
	require.Equal(t, 2, r.status)
	require.Contains(t, r.err, "look: the name is empty")
}

func TestWaitToldWrongDoesNotLookAsItsCommand(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"wait":                               "wait: NAME is missing",
		"wait -- true":                       "wait: NAME is missing",
		"wait a":                             "wait: -- and a command are missing",
		"wait a true":                        "wait: -- and a command are missing",
		"wait a -nix":                        "not defined: -nix\n",
		"wait a b -- true":                   "wait: b is one word too many\n",
		"wait a -guard 50 -- true":           "-guard: the unit is missing, as in 50ms, 50s or 50m",
		"wait a --":                          "wait: -- and a command are missing",
		"wait a -quota 1 -- true":            `-quota: duration of "1"`,
		"wait a -quota 1/1s -n x -- true":    "-n: parse error",
		"wait a -quota 1/1s -n 0 -- true":    "nothing is asked for",
		"wait a -quota 1/1s -n 2 -- true":    "2 asked for, at most 1 fit",
		"wait a -timeout -1s -- true":        `invalid value "-1s" for flag -timeout: want more than 0`,
		"wait a -timeout 0 -- true":          `invalid value "0" for flag -timeout: want more than 0`,
		"wait a -guard -1s -- true":          "WithGuard: -1s is negative",
		"wait a -redis http://h/ -- true":    "want redis://",
		"wait a -timeout 5 -quota 1/1s -- x": `invalid value "5" for flag -timeout: the unit is missing`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r := finish(t, process(nowhere, strings.Fields(line)...))
			assert.Equal(t, 125, r.status)
			assert.Empty(t, r.out)
			assert.Contains(t, r.err, says)
		})
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"version", "-version", "--version"} {
		r := finish(t, process(nowhere, line))
		require.Zero(t, r.status, line)
		require.Empty(t, r.err)
		require.Regexp(t, `^fairlimit \S+ go\S+ \w+/\w+\n$`, r.out)
	}
}

func TestHelpIsNoErrorAndFits(t *testing.T) {
	t.Parallel()
	lines := [][]string{{"help"}, {"-h"}, {"help", "help"}, {"look", "a", "-h"}}
	for _, c := range commands() {
		lines = append(lines, []string{"help", c.name}, []string{c.name, "-help"})
	}
	for _, line := range lines {
		r := finish(t, process(nowhere, line...))
		require.Zero(t, r.status, line)
		require.Empty(t, r.err)
		require.True(t, strings.HasPrefix(r.out, "usage: fairlimit "), r.out)
		fits(t, r.out)
	}
	require.Equal(t, finish(t, process(nil, "help", "wait")).out, finish(t, process(nil, "wait", "-h")).out)
}

func TestTheManualNamesEveryCommandFlagAndStatus(t *testing.T) {
	for _, c := range commands() {
		assert.Contains(t, manual, "//	"+c.name+" ")
		flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
		c.define(flags)
		flags.VisitAll(func(f *flag.Flag) {
			assert.Regexp(t, `\s\[?-`+f.Name+`[\].,\s]`, manual, "flag -%s of %s", f.Name, c.name)
		})
	}
	for _, status := range []string{"0", "1", "2", "3", "123", "124", "125", "126", "127", "128+n"} {
		assert.Regexp(t, `(?m)^//	`+strings.ReplaceAll(status, "+", `\+`)+` `, manual)
	}
	fits(t, strings.ReplaceAll(manual, "\t", "    "))
}
