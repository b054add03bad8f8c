package main

import (
	"cmp"
	"context"
	_ "embed"
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
		Use: "fairlimit COMMAND", Version: version(), SilenceErrors: true, SilenceUsage: true,
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
	root.AddCommand(ls(c), look(c), pause(c), resume(c), requeue(c), reset(c), quota(c), serveHTTP(c), wait(c),
		c.command("check", "Find out what a Redis lacks for limiters", c.check),
		&cobra.Command{Use: "version", Short: "Print the version", Args: count, Run: func(*cobra.Command, []string) {
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
	for _, cmd := range append(root.Commands(), root) {
		if text := explained(cmd.Name()); text != "" {
			cmd.Long = text
		}
	}
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

//go:embed manual.txt
var manual string

// explained is what the manual says of a command.
func explained(name string) string {
	_, text, _ := strings.Cut(manual, "== "+name+"\n\n")
	text, _, _ = strings.Cut(text, "\n== ")
	return text
}

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

// command is one that asks Redis. Its use says which words it takes.
func (c *connection) command(use, short string, do func(ctx context.Context, words []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: count, RunE: func(cmd *cobra.Command, words []string) error {
		if err := c.connect(); err != nil {
			return err
		}
		return do(cmd.Context(), words)
	}}
	if strings.Contains(use, " NAME") {
		cmd.ValidArgsFunction = c.complete
	}
	return cmd
}

// count checks how many words there are.
func count(cmd *cobra.Command, words []string) error {
	use, _, runs := strings.Cut(cmd.Use, " [flags] -- ")
	names, given := strings.Fields(use)[1:], words
	if at := cmd.ArgsLenAtDash(); runs && at >= 0 {
		given = words[:at]
	}
	switch {
	case len(given) < len(names) && !strings.HasPrefix(names[len(given)], "["):
		return misused("%s: %s is missing", cmd.Name(), names[len(given)])
	case runs && len(given) == len(words):
		return misused("%s: -- and a command are missing", cmd.Name())
	case len(given) > len(names) && !strings.HasSuffix(use, "...]"):
		return misused("%s: %s is one word too many", cmd.Name(), printable(given[len(names)]))
	case len(given) > 0 && given[0] == "":
		return misused("%s: the name is empty", cmd.Name())
	}
	return nil
}
