package main

import (
	"cmp"
	"flag"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fairlimit/fairlimit"
)

const (
	defaultPrefix  = "fairlimit:"
	defaultAddress = "localhost:6379"
)

// passwords follows an error of Redis about them.
const passwords = "the password is that of the URL, else $FAIRLIMIT_REDIS_PASSWORD, else $REDISCLI_AUTH;\n" +
	"that of the Sentinels is $FAIRLIMIT_SENTINEL_PASSWORD\n"

// wheres follows an error if there was no server to ask.
const wheres = "Redis was looked for at %s: -redis or $FAIRLIMIT_REDIS says where it is\n"

// connection is the Redis that a command is for, and the prefix of its keys. It
// ends with the process: to close a client would be to wait for the calls that
// Redis leaves unanswered.
type connection struct {
	address string
	prefix  string

	rdb redis.UniversalClient // nil until it is asked for
	at  string                // its address, without a password
}

// define is for the flags before the command and for those behind it; what
// stands before is the default behind.
func (c *connection) define(flags *flag.FlagSet) {
	flags.StringVar(&c.address, "redis", c.address, "`URL` of Redis; else $FAIRLIMIT_REDIS, else "+defaultAddress)
	flags.StringVar(&c.prefix, "prefix", c.prefix, "prefix `P` of the keys; else "+defaultPrefix)
}

// client connects lazily.
func (c *connection) client() (redis.UniversalClient, error) {
	if c.rdb != nil {
		return c.rdb, nil
	}
	a, err := parseAddress(cmp.Or(c.address, os.Getenv("FAIRLIMIT_REDIS"), defaultAddress))
	if err != nil {
		return nil, err
	}
	a.password = cmp.Or(a.password, os.Getenv("FAIRLIMIT_REDIS_PASSWORD"), os.Getenv("REDISCLI_AUTH"))
	c.rdb, err = a.client(os.Getenv("FAIRLIMIT_SENTINEL_PASSWORD"))
	c.at = a.String()
	return c.rdb, err
}

// open is a queue to look at and to steer.
func (c *connection) open(name string, opts ...fairlimit.Option) (*fairlimit.Queue, error) {
	rdb, err := c.client()
	if err != nil {
		return nil, err
	}
	return fairlimit.Open(rdb, name, append(opts, fairlimit.WithPrefix(c.prefix))...)
}
