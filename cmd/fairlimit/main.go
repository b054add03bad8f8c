package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
)

func main() { os.Exit(run(os.Args[1:])) }

// run does what the arguments say and returns the exit status.
func run(args []string) int {
	logging.Disable() // what goes wrong is told once, as an error
	c := new(connection)
	root := commands(c)
	root.SetArgs(twoDashes(root, args))
	cmd, err := root.ExecuteC()
	if err == nil {
		return statusOK
	}
	tell(err)
	if redis.IsAuthError(err) {
		_, _ = fmt.Fprint(os.Stderr, passwords)
	}
	silent := errors.Is(err, fairlimit.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, fairlimit.ErrUnreachable) || silent {
		_, _ = fmt.Fprintf(os.Stderr, wheres, fit(c.at, width))
	}
	if errors.As(err, new(usageError)) {
		_, _ = fmt.Fprintf(os.Stderr, "usage: %s\n`%s -h` says more\n", cmd.UseLine(), cmd.CommandPath())
	}
	return status(err, cmd.Name() == "wait")
}

func tell(err error) {
	_, _ = fmt.Fprintf(os.Stderr, "fairlimit: %s\n", strings.TrimPrefix(err.Error(), "fairlimit: "))
}

// commands are all that there are, below the one that has no name.
func commands(c *connection) *cobra.Command {
	root := &cobra.Command{
		Use: "fairlimit COMMAND", Long: about, Version: version(), SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) > 0 {
				return misused("no command %s", printable(words[0]))
			}
			return misused("no command")
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	c.define(root.PersistentFlags())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpTemplate(help)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused("%.300s", err) })
	root.AddCommand(ls(c), look(c), pause(c), resume(c), requeue(c), reset(c), quota(c), serveHTTP(c), wait(c), check(c),
		&cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
			fmt.Println(version())
		}})
	root.InitDefaultCompletionCmd()
	shells, _, _ := root.Find([]string{"completion"})
	shells.Args = nil
	shells.RunE = func(*cobra.Command, []string) error {
		return misused("completion: want bash, zsh, fish or powershell")
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		RunE: func(_ *cobra.Command, words []string) error {
			explained, rest, err := root.Find(words)
			if err != nil || len(rest) > 0 {
				return misused("no command %s", printable(strings.Join(words, " ")))
			}
			explained.InitDefaultHelpFlag()
			return explained.Help()
		},
	})
	return root
}

const help = `usage: {{.UseLine}}

{{trimTrailingWhitespaces (or .Long .Short)}}
{{if .HasAvailableSubCommands}}
commands:
{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}  {{rpad .Name 11}} {{.Short}}
{{end}}{{end}}{{end}}
flags:
{{.LocalFlags.FlagUsagesWrapped 80}}{{if .HasAvailableInheritedFlags}}{{.InheritedFlags.FlagUsagesWrapped 80}}{{end}}`

const about = `Fairlimit looks at the queues that programs share through package fairlimit,
steers them, and runs commands when their turn comes.

A duration is written as in Go, 500ms, 30s or 1h30m, or with sec, min, hour or
day. A quota is permits and a duration, with or without a burst: 20/1s, 10/min,
or 100/2m burst 10. A flag begins with one dash or with two.

Where Redis is says -redis, else $FAIRLIMIT_REDIS, else it is localhost:6379:

  host:port                                    one server
  redis://user@host:port/0                     one server, a database
  rediss://host:port                           over TLS
  unix:///run/redis.sock                       over a socket
  redis+sentinel://host:26379,host/MASTER/0    the master, by Sentinel
  host:port,host:port                          a Cluster
  redis+cluster://user@host:port               a Cluster, one node is enough

rediss+sentinel:// and rediss+cluster:// are over TLS. A query such as
?read_timeout=1s sets options of go-redis; its ParseURL lists them. With
?skip_verify=true no certificate is checked. Put a password into
$FAIRLIMIT_REDIS_PASSWORD or $REDISCLI_AUTH, since everybody on a machine sees
arguments, and that of the Sentinels into $FAIRLIMIT_SENTINEL_PASSWORD. If
programs use WithPrefix, give the same prefix to -prefix.

Exit status: 0 done; 1 failed; 2 the command line cannot be understood; 3 Redis
was not reached, or did not answer.`

func version() string {
	name := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		name = info.Main.Version
	}
	return fmt.Sprintf("fairlimit %s %s %s/%s", cmp.Or(name, "(devel)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// oneDash is a flag that begins with one, as those of Go programs may.
var oneDash = regexp.MustCompile(`^-([a-z][a-z-]+)(=|$)`)

// twoDashes adds the dash that flags lack, up to --.
func twoDashes(root *cobra.Command, args []string) []string {
	known := func(name string) bool {
		for _, cmd := range append(root.Commands(), root) {
			if cmd.Flags().Lookup(name) != nil || root.PersistentFlags().Lookup(name) != nil {
				return true
			}
		}
		return name == "help" || name == "version"
	}
	made := append([]string{}, args...)
	for i, arg := range made {
		if arg == "--" {
			break
		}
		if parts := oneDash.FindStringSubmatch(arg); parts != nil && known(parts[1]) {
			made[i] = "-" + arg
		}
	}
	return made
}

// named checks that a name comes first, and that there are so many words.
func named(more ...string) cobra.PositionalArgs {
	wanted := append([]string{"NAME"}, more...)
	return func(cmd *cobra.Command, words []string) error {
		switch {
		case len(words) < len(wanted):
			return misused("%s: %s is missing", cmd.Name(), wanted[len(words)])
		case words[0] == "":
			return misused("%s: the name is empty", cmd.Name())
		case len(words) > len(wanted):
			return misused("%s: %s is one word too many", cmd.Name(), printable(words[len(wanted)]))
		}
		return nil
	}
}
