package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/naming"
)

// trial is one thing that a limiter needs of a server.
type trial struct {
	what string
	lost string // what goes without it; empty: no limiter works
	try  func(ctx context.Context) error
}

func (c *connection) check(ctx context.Context, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	name := "fairlimit-check-" + rand.Text()
	key := c.prefix + "{" + name + "}"
	q, err := fairlimit.NewQueue(c.rdb, name, fairlimit.Every(time.Millisecond), fairlimit.WithPrefix(c.prefix),
		fairlimit.WithGuard(0), fairlimit.WithStoredQuota(), fairlimit.WithUnit("tokens", fairlimit.PerSecond(1000)))
	if err != nil {
		return err
	}
	fmt.Println(fit("checking what limiters need, of Redis at "+c.at, width))
	verdict("under", key)
	if _, err := c.look(ctx, name); isUnreachable(err) {
		return err
	}
	defer func() { // the keys of a queue of this name have all of it in theirs
		ctx := context.WithoutCancel(ctx)
		left, _ := c.rdb.Keys(ctx, naming.Pattern(key)+"*").Result()
		_ = c.rdb.Del(ctx, append(left, key, key+":check", key+":quota")...).Err()
	}()
	missing := 0
	for _, t := range append(commandTrials(c.rdb, key+":check"), limiterTrials(q)...) {
		err := t.try(ctx)
		word, what := "ok", t.what
		switch {
		case isUnreachable(err):
			return err
		case err != nil && t.lost == "":
			missing++
			word = "MISSING"
		case err != nil:
			word, what = "without", t.what+": "+t.lost
		}
		verdict(word, append([]string{what}, advice(err)...)...)
	}
	if missing > 0 {
		return fmt.Errorf("missing: %d of what a limiter needs", missing)
	}
	return nil
}

// verdict is a word, and what it is about.
func verdict(word string, rows ...string) {
	var l lines
	for _, row := range rows {
		l.add(word, row)
	}
	fmt.Print(l.String())
}

var settings = []struct {
	says   *regexp.Regexp
	advice string
}{
	{
		regexp.MustCompile(`(?i)noperm|no permissions|can't run this command|not allowed by the acl`),
		"the ACL has to allow it: docs/OPERATE.md has all that it has to",
	},
	{regexp.MustCompile(`(?i)unknown.*command`), "this service has no such command, or rename-command has taken it away"},
	{regexp.MustCompile(`(?i)readonly`), "this is a replica: -redis has to name the primary"},
	{regexp.MustCompile(`(?i)crossslot`), "the service does not honour {hash tags}, or the prefix has a brace"},
	{regexp.MustCompile(`(?i)undeclared`), "allow undeclared keys, or choose another cluster mode"},
	{regexp.MustCompile(`(?i)non deterministic`), "scripts may not write after TIME: the server is older than Redis 5"},
	{regexp.MustCompile(`(?i)oom`), "maxmemory is reached: raise it"},
	{regexp.MustCompile(`(?i)misconf`), "the server cannot save: stop-writes-on-bgsave-error"},
}

// advice is what the server answers, and the setting to change.
func advice(err error) (rows []string) {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "fairlimit: ")
	for _, s := range settings {
		if s.says.MatchString(text) {
			return []string{text, s.advice}
		}
	}
	return []string{text}
}

// commandTrials are the commands that the scripts and the client send, each with
// what goes without it.
func commandTrials(rdb redis.UniversalClient, key string) (trials []trial) {
	try := func(what, lost string, command ...any) {
		trials = append(trials, trial{what, lost, func(ctx context.Context) error {
			if err := rdb.Do(ctx, command...).Err(); !errors.Is(err, redis.Nil) {
				return err
			}
			return nil
		}})
	}
	inScript := func(command, arguments, lost string) {
		try(command+" in a script", lost, "EVAL", "return redis.call('"+command+"'"+arguments+")", 1, key)
	}
	try("EVAL", "", "EVAL", "return 1", 1, key)
	try("EVALSHA", "", "EVALSHA", redis.NewScript("return 1").Hash(), 1, key)
	for _, c := range []struct{ command, arguments string }{
		{"TIME", ""},
		{"PSETEX", ", KEYS[1], 60000, 'head'"},
		{"GET", ", KEYS[1]"},
		{"PTTL", ", KEYS[1]"},
		{"PEXPIRE", ", KEYS[1], 60000"},
		{"DEL", ", KEYS[1]"},
		{"ZADD", ", KEYS[1], 1, 'slot'"},
		{"ZCARD", ", KEYS[1]"},
		{"ZSCORE", ", KEYS[1], 'slot'"},
		{"ZRANGE", ", KEYS[1], 0, 0"},
		{"ZREVRANGE", ", KEYS[1], 0, 0"},
		{"ZRANGEBYSCORE", ", KEYS[1], 1, '+inf', 'LIMIT', 0, 1"},
		{"ZREMRANGEBYSCORE", ", KEYS[1], 2, 3"},
		{"ZREMRANGEBYRANK", ", KEYS[1], 1, 2"},
		{"ZREM", ", KEYS[1], 'slot'"},
	} {
		inScript(c.command, c.arguments, "")
	}
	inScript("SET", ", KEYS[1], 'x', 'PX', 60000", "no stored quotas")
	try("a write after TIME in a script", "", "EVAL",
		"redis.call('TIME') return redis.call('PSETEX', KEYS[1], 60000, 'state')", 1, key)
	try("SCAN", "no fairlimit ls", "SCAN", 0, "MATCH", key)
	return append(trials, trial{"maxmemory-policy", "whether the server evicts queues", func(ctx context.Context) error {
		info, err := rdb.Info(ctx, "memory").Result()
		policy := evictions.FindString(info)
		if err == nil && policy != "" {
			err = errors.New(policy + ": want noeviction, or queues are lost")
		}
		return err
	}})
}

// evictions finds a policy that evicts.
var evictions = regexp.MustCompile(`(?m)^maxmemory_policy:(allkeys|volatile)[a-z-]*`)

// limiterTrials do what a limiter does, with its own scripts.
func limiterTrials(q *fairlimit.Queue) []trial {
	return []trial{
		{"Wait", "", func(ctx context.Context) error { return errors.Join(q.Wait(ctx), q.Wait(ctx)) }},
		{"ReserveN, Cancel", "", func(ctx context.Context) error {
			r, err := q.ReserveN(ctx, 1)
			if err != nil {
				return err
			}
			return r.Cancel(ctx)
		}},
		{"Status", "", func(ctx context.Context) error { _, err := q.Status(ctx); return err }},
		{"Wait of a flow", "no flows", func(ctx context.Context) error {
			f, err := q.Flow("check", 1)
			if err != nil {
				return err
			}
			return f.Wait(ctx)
		}},
		{"Take and Settle of a unit", "no units", func(ctx context.Context) error {
			turn, err := q.Take(ctx, fairlimit.Amounts{"tokens": 2})
			if err != nil {
				return err
			}
			return turn.Settle(ctx, fairlimit.Amounts{"tokens": 3})
		}},
		{"Pause", "no pauses", func(ctx context.Context) error {
			return errors.Join(q.Pause(ctx, 5*time.Millisecond), q.Wait(ctx))
		}},
		{"SetQuotas, ForgetQuotas", "no stored quotas", func(ctx context.Context) error {
			return errors.Join(q.SetQuotas(ctx, fairlimit.Every(2*time.Millisecond)), q.Wait(ctx), q.ForgetQuotas(ctx))
		}},
		{"Reset", "no reset", q.Reset},
	}
}
