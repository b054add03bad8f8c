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
	"github.com/spf13/cobra"

	"github.com/fairlimit/fairlimit"
)

// trial is one thing that a limiter needs of a server.
type trial struct {
	what string
	lost string // what goes without it; empty: no limiter works
	try  func(ctx context.Context) error
}

func check(c *connection) *cobra.Command {
	return c.command("check", "Find out what a Redis lacks for limiters", cobra.NoArgs, c.check)
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
	fmt.Printf("checking what limiters need, of Redis at %s, under %s\n", c.at, key)
	defer func() {
		left := []string{key}
		for _, further := range []string{"calls", "tokens", "flows", "flow:check", "quota", "check"} {
			left = append(left, key+":"+further)
		}
		_ = c.rdb.Del(context.WithoutCancel(ctx), left...).Err()
	}()
	missing := 0
	answer := func(word string, t trial, what string, err error) {
		fmt.Printf("  %-8s %s%s\n           %s\n", word, t.what, what, strings.TrimPrefix(err.Error(), "fairlimit: "))
	}
	trials := append(trialsOf(c.rdb, key+":check"), trial{
		"a turn, its settling, and what steers a queue", "",
		func(ctx context.Context) error { return limits(ctx, q) },
	})
	for _, t := range trials {
		switch err := t.try(ctx); {
		case isUnreachable(err):
			return err
		case err == nil:
			fmt.Printf("  ok       %s\n", t.what)
		case t.lost != "":
			answer("without", t, ": "+t.lost, err)
		default:
			missing++
			answer("MISSING", t, "", err)
		}
	}
	if missing > 0 {
		return fmt.Errorf("missing: %d of what a limiter needs; docs/OPERATE.md has what an ACL has to allow", missing)
	}
	return nil
}

// trialsOf are the commands that the scripts and the client send.
func trialsOf(rdb redis.UniversalClient, key string) (trials []trial) {
	try := func(what, lost string, command ...any) {
		trials = append(trials, trial{what, lost, func(ctx context.Context) error {
			if err := rdb.Do(ctx, command...).Err(); !errors.Is(err, redis.Nil) {
				return err
			}
			return nil
		}})
	}
	try("EVAL", "", "EVAL", "return 1", 1, key)
	try("EVALSHA", "", "EVALSHA", redis.NewScript("return 1").Hash(), 1, key)
	for _, command := range []string{
		"TIME",
		"PSETEX, KEYS[1], 60000, 'head'",
		"GET, KEYS[1]",
		"PTTL, KEYS[1]",
		"PEXPIRE, KEYS[1], 60000",
		"DEL, KEYS[1]",
		"ZADD, KEYS[1], 1, 'slot'",
		"ZCARD, KEYS[1]",
		"ZSCORE, KEYS[1], 'slot'",
		"ZRANGE, KEYS[1], 0, 0",
		"ZREVRANGE, KEYS[1], 0, 0",
		"ZRANGEBYSCORE, KEYS[1], 1, '+inf', 'LIMIT', 0, 1",
		"ZREMRANGEBYSCORE, KEYS[1], 2, 3",
		"ZREMRANGEBYRANK, KEYS[1], 1, 2",
		"ZREM, KEYS[1], 'slot'",
	} {
		name, _, _ := strings.Cut(command, ",")
		arguments := strings.TrimPrefix(command, name)
		try(name+" in a script", "", "EVAL", "return redis.call('"+name+"'"+arguments+")", 1, key)
	}
	try("a write after TIME in a script", "", "EVAL",
		"redis.call('TIME') return redis.call('PSETEX', KEYS[1], 60000, 'state')", 1, key)
	try("SET in a script", "no stored quotas", "EVAL", "return redis.call('SET', KEYS[1], 'x', 'PX', 60000)", 1, key)
	try("SCAN", "no fairlimit ls", "SCAN", 0, "MATCH", key)
	return append(trials, trial{
		"maxmemory-policy", "what keeps queues from eviction",
		func(ctx context.Context) error {
			info, err := rdb.Info(ctx, "memory").Result()
			if policy := evictions.FindString(info); policy != "" {
				err = errors.New(policy + ": want noeviction, or queues are lost")
			}
			return err
		},
	})
}

// evictions finds a policy that evicts.
var evictions = regexp.MustCompile(`(?m)^maxmemory_policy:(allkeys|volatile)[a-z-]*`)

// limits does what a limiter does, with its own scripts.
func limits(ctx context.Context, q *fairlimit.Queue) error {
	flow, err := q.Flow("check", 1)
	if err != nil {
		return err
	}
	turn, err := flow.Take(ctx, fairlimit.Amounts{"": 1, "tokens": 2})
	if err != nil {
		return err
	}
	_, err = q.Status(ctx)
	return errors.Join(err, turn.Settle(ctx, fairlimit.Amounts{"tokens": 3}), q.Wait(ctx),
		q.Pause(ctx, time.Second), q.Resume(ctx), q.Requeue(ctx), q.Reset(ctx))
}
