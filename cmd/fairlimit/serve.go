package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit/cmd/fairlimit/internal/serve"
)

// serving is how serve serves.
type serving struct {
	listen    string
	public    bool
	tokenFile string
	config    serve.Config
}

func serveHTTP(c *connection) *cobra.Command {
	s := new(serving)
	cmd := c.command("serve [NAME=QUOTAS...]", "Let callers in any language wait, over HTTP", cobra.ArbitraryArgs,
		func(ctx context.Context, words []string) error { return s.serve(ctx, c, words) })
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7070", "`address`: host:port, or unix:///path")
	flags.BoolVar(&s.public, "public", false, "listen on an address that other machines reach, too")
	flags.BoolVar(&s.config.Admin, "admin", false, "allow pause, resume, requeue, reset and quota")
	flags.Int64Var(&s.config.MostWaiting, "most-waiting", 10_000, "answer 429 once this `number` of requests wait")
	flags.StringVar(&s.tokenFile, "token-file", "", "want the token that this `file` holds")
	defineGuard(flags, &s.config.Options)
	return cmd
}

func (s *serving) serve(ctx context.Context, c *connection, words []string) error {
	if err := s.read(c, words); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	server, err := serve.New(ctx, s.config)
	if err != nil {
		return err
	}
	l, err := s.bind()
	if err != nil {
		return err
	}
	scheme := "http"
	if l.Addr().Network() == "unix" {
		scheme = "unix"
	}
	fmt.Printf("serving %s://%s\n", scheme, l.Addr())
	return server.Serve(ctx, l)
}

// read makes a configuration of the words and the flags.
func (s *serving) read(c *connection, words []string) error {
	s.config.Quotas = map[string]serve.Quotas{}
	for _, word := range words {
		at := strings.LastIndexByte(word, '=') // no quota has one
		if at < 1 {
			return misused("serve: %s: want NAME=QUOTAS, such as tax-office=1/1s", printable(word))
		}
		quotas, err := serve.ParseQuotas(word[at+1:])
		if _, given := s.config.Quotas[word[:at]]; given {
			err = errors.New("it is given twice")
		}
		if err != nil {
			return misused("serve: %s: %v", printable(word[:at]), err)
		}
		s.config.Quotas[word[:at]] = quotas
	}
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if s.config.Token = strings.TrimSpace(string(text)); err == nil && s.config.Token == "" {
			err = fmt.Errorf("%s: no token", s.tokenFile)
		}
		if err != nil {
			return err
		}
	}
	// What it logs is quoted: nothing moves the cursor.
	s.config.Log = slog.NewLogLogger(slog.NewTextHandler(os.Stderr, nil), slog.LevelWarn)
	s.config.Host, _, _ = net.SplitHostPort(s.listen)
	s.config.Redis, s.config.Prefix = c.rdb, c.prefix
	return nil
}

// bind listens. What it refuses was never open.
func (s *serving) bind() (net.Listener, error) {
	if path, isUnix := strings.CutPrefix(s.listen, "unix://"); isUnix {
		return serve.ListenUnix(path)
	}
	addr, err := net.ResolveTCPAddr("tcp", s.listen)
	if err != nil {
		return nil, misused("serve: -listen: want host:port, or unix:///path")
	}
	if !s.public && !addr.IP.IsLoopback() {
		return nil, misused("serve: -listen: other machines reach this address; give -public as well, if they may")
	}
	if s.public && s.config.Token == "" {
		s.config.Log.Print("without -token-file everybody who reaches this address takes turns")
	}
	return net.ListenTCP("tcp", addr)
}
