package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

// trial is one thing that a limiter needs of a server.
type trial struct {
	what string
	acl  string // what an ACL has to allow, if the command is one
	lost string // what goes without it; empty: no limiter works
	try  func(ctx context.Context) error
}

func check(*flag.FlagSet) action {
	return func(ctx context.Context, c *call) error {
		rdb, err := c.client()
		if err != nil {
			return err
		}
		name := "fairlimit-check-" + rand.Text()
		key := c.prefix + "{" + name + "}"
		q, err := fairlimit.NewQueue(rdb, name, fairlimit.Every(time.Millisecond),
			fairlimit.WithPrefix(c.prefix), fairlimit.WithStoredQuota(), fairlimit.WithPauseWithin(time.Millisecond),
			fairlimit.WithUnit("tokens", fairlimit.PerSecond(1000)))
		if err != nil {
			return err
		}
		var l lines
		l.WriteString(fit("checking what limiters need, of Redis at "+c.at, width) + "\n")
		l.add("under", "%s", key)
		fmt.Print(l.String())
		if _, err := c.inspect(ctx, name); isUnreachable(err) {
			return err
		}
		defer func() {
			_ = rdb.Del(context.WithoutCancel(ctx), key, key+":quota", key+":units", key+":flow:check", key+":s").Err()
		}()
		missing := 0
		for _, t := range append(commandTrials(rdb, key+":s"), limiterTrials(q)...) {
			err := t.try(ctx)
			if isUnreachable(err) {
				return err
			}
			if err != nil && t.lost == "" {
				missing++
			}
			fmt.Print(t.verdict(err))
		}
		fmt.Print(c.about(ctx, rdb))
		if missing > 0 {
			return fmt.Errorf("missing: %d of what a limiter needs", missing)
		}
		return nil
	}
}

// verdict is one line, and with an error more, which say what to do.
func (t *trial) verdict(err error) string {
	var l lines
	if err == nil {
		l.add("ok", "%s", t.what)
		return l.String()
	}
	if t.lost != "" {
		l.add("without", "%s: %s", t.what, t.lost)
	} else {
		l.add("MISSING", "%s", t.what)
	}
	l.add("", "%s", strings.TrimPrefix(err.Error(), "fairlimit: "))
	if advice := t.advice(err); advice != "" {
		l.add("", "%s", advice)
	}
	return l.String()
}

// advice names the setting.
func (t *trial) advice(err error) string {
	says := func(word string) bool { return strings.Contains(strings.ToLower(err.Error()), word) }
	switch {
	case says("noperm"), says("no permissions"), says("can't run this command"), says("not allowed by the acl"):
		if t.acl == "" {
			return "the ACL has to allow more: docs/OPERATE.md has all of it"
		}
		return "the ACL has to allow it: ACL SETUSER ... " + t.acl
	case says("unknown") && says("command"):
		return "this service has no such command, or rename-command has taken it away"
	case says("readonly"):
		return "this is a replica: -redis has to name the primary"
	case says("crossslot"):
		return "the service does not honour {hash tags}, or the prefix has a brace"
	case says("undeclared"):
		return "the service wants all keys declared: allow undeclared keys, or another cluster mode"
	case says("non deterministic"):
		return "scripts may not write after TIME: the server is older than Redis 5"
	case says("oom"):
		return "maxmemory is reached: raise it"
	case says("misconf"):
		return "the server cannot save: stop-writes-on-bgsave-error"
	}
	return ""
}

// commandTrials are the commands that the scripts and the client send.
func commandTrials(rdb redis.UniversalClient, key string) []trial {
	keys := []string{key}
	script := func(what, acl, lost, text string) trial {
		return trial{what, acl, lost, func(ctx context.Context) error {
			_, err := rdb.Eval(ctx, text, keys).Result()
			if errors.Is(err, redis.Nil) {
				return nil
			}
			return err
		}}
	}
	trials := []trial{
		script("EVAL", "+eval", "", "return 1"),
		{"EVALSHA", "+evalsha", "", func(ctx context.Context) error {
			return redis.NewScript("return 1").EvalSha(ctx, rdb, keys).Err()
		}},
	}
	for _, command := range []string{
		"'PSETEX', KEYS[1], 60000, 'state'", "'TIME'", "'GET', KEYS[1]", "'GETRANGE', KEYS[1], 0, 2",
		"'SETRANGE', KEYS[1], 1, 'x'", "'PTTL', KEYS[1]", "'PEXPIRE', KEYS[1], 60000",
	} {
		word := strings.Trim(strings.SplitN(command, ",", 2)[0], "'")
		trials = append(trials, script(word+" in a script", "+"+strings.ToLower(word), "", "return redis.call("+command+")"))
	}
	return append(trials,
		script("a write after TIME in a script", "", "",
			"redis.call('TIME') return redis.call('PSETEX', KEYS[1], 60000, 'state')"),
		script("INFO in a script", "+info", "a primary that comes back may go unnoticed",
			"return redis.call('INFO', 'replication')"),
		script("SET in a script", "+set", "no stored quotas", "return redis.call('SET', KEYS[1], 'x', 'PX', 60000)"),
		trial{"SCAN", "+scan", "no fairlimit ls", func(ctx context.Context) error {
			return rdb.Scan(ctx, 0, key, 10).Err()
		}},
		trial{"WAIT", "+wait", "no WithReplicas", func(ctx context.Context) error {
			return rdb.Do(ctx, "WAIT", 0, 1).Err()
		}},
	)
}

// limiterTrials do what a limiter does, with its own scripts.
func limiterTrials(q *fairlimit.Queue) []trial {
	limits := func(what, lost string, try func(ctx context.Context) error) trial {
		return trial{what, "", lost, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return try(ctx)
		}}
	}
	return []trial{
		limits("Wait", "", func(ctx context.Context) error { return errors.Join(q.Wait(ctx), q.Wait(ctx)) }),
		limits("ReserveN, Cancel", "", func(ctx context.Context) error {
			r, err := q.ReserveN(ctx, 1)
			if err != nil {
				return err
			}
			return r.Cancel(ctx)
		}),
		limits("Status", "", func(ctx context.Context) error { _, err := q.Status(ctx); return err }),
		limits("Wait of a flow", "no flows", func(ctx context.Context) error {
			f, err := q.Flow("check", 1)
			if err != nil {
				return err
			}
			return f.Wait(ctx)
		}),
		limits("Wait of a flow with a ceiling", "no ceilings", func(ctx context.Context) error {
			f, err := q.Flow("check", 1, fairlimit.WithFlowQuota(fairlimit.Every(time.Millisecond)))
			if err != nil {
				return err
			}
			return f.Wait(ctx)
		}),
		limits("Take and Settle of a unit", "no units", func(ctx context.Context) error {
			turn, err := q.Take(ctx, fairlimit.Amounts{"tokens": 2})
			if err != nil {
				return err
			}
			return turn.Settle(ctx, fairlimit.Amounts{"tokens": 3})
		}),
		limits("Pause", "no pauses", func(ctx context.Context) error {
			return errors.Join(q.Pause(ctx, 5*time.Millisecond), q.Wait(ctx))
		}),
		limits("SetQuotas, ForgetQuotas", "no stored quotas", func(ctx context.Context) error {
			return errors.Join(q.SetQuotas(ctx, fairlimit.Every(2*time.Millisecond)), q.Wait(ctx), q.ForgetQuotas(ctx))
		}),
		limits("Reset", "no reset", q.Reset),
	}
}

// about is what the server tells of itself that matters.
func (c *call) about(ctx context.Context, rdb redis.UniversalClient) string {
	var l lines
	told := map[string]string{}
	info, err := rdb.Info(ctx).Result()
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		told[key] = value
	}
	if err != nil || told["redis_version"] == "" {
		l.add("unknown", "which server this is, and whether it evicts keys: INFO is refused")
		return l.String()
	}
	server := "Redis or alike"
	if told["server_name"] != "" {
		server = told["server_name"]
	}
	l.add("server", "%s %s, %s", fit(printable(server), 20), fit(printable(told["redis_version"]), 20),
		fit(printable(told["redis_mode"]), 20))
	if policy := told["maxmemory_policy"]; policy != "" && policy != "noeviction" && told["maxmemory"] != "0" {
		l.add("warning", "maxmemory-policy is %s: want noeviction, or queues are lost", fit(printable(policy), 20))
	}
	return l.String()
}
