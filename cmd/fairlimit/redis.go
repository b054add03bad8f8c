package main

import (
	"cmp"
	"crypto/tls"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/pflag"
)

// passwords follows an error of Redis about them.
const passwords = "the password is that of the URL, else $FAIRLIMIT_REDIS_PASSWORD, else $REDISCLI_AUTH;\n" +
	"that of the Sentinels is $FAIRLIMIT_SENTINEL_PASSWORD\n"

// whereHint follows an error if there was no server to ask.
const whereHint = "Redis was looked for at %s: -redis or $FAIRLIMIT_REDIS says where it is\n"

const defaultAddress = "localhost:6379"

// connection is the Redis that a command is for, and the prefix of its keys. It
// ends with the process: to close a client would be to wait for the calls that
// Redis leaves unanswered.
type connection struct {
	address string
	prefix  string
	runs    bool // the command line was understood

	rdb redis.UniversalClient
	at  string // its address, without a password
}

func (c *connection) define(flags *pflag.FlagSet) {
	flags.StringVar(&c.address, "redis", "", "`URL` of Redis; else $FAIRLIMIT_REDIS, else "+defaultAddress)
	flags.StringVar(&c.prefix, "prefix", "fairlimit:", "prefix `P` of the keys")
}

// connect makes a client for a URL of go-redis, and asks nothing yet. The scheme
// may name the kind as well: redis+cluster or redis+sentinel. Errors repeat nothing
// that may be a piece of a password.
func (c *connection) connect() error {
	const wanted = "-redis: it cannot be read; want a URL as `fairlimit -h` shows it. An @, #, / or % that is part " +
		"of a password has to be written as %40, %23, %2F or %25; or put it into $FAIRLIMIT_REDIS_PASSWORD"
	text := cmp.Or(c.address, os.Getenv("FAIRLIMIT_REDIS"), defaultAddress)
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" {
		return misused("%s", wanted)
	}
	if err := c.dialURL(u); err != nil {
		if strings.Contains(text, "@") {
			return misused("%s", wanted)
		}
		return misused("-redis: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	return nil
}

func (c *connection) dialURL(u *url.URL) error {
	kind := ""
	u.Scheme, kind, _ = strings.Cut(u.Scheme, "+")
	query := u.Query()
	unverified := query.Get("skip_verify") == "true"
	query.Del("skip_verify")
	// A command is to fail soon where Redis is not there. A port without TLS leaves
	// a handshake unanswered.
	for key, value := range map[string]string{"max_retries": "-1", "dial_timeout": "2s"} {
		if !query.Has(key) {
			query.Set(key, value)
		}
	}
	u.RawQuery = query.Encode()
	password := cmp.Or(os.Getenv("FAIRLIMIT_REDIS_PASSWORD"), os.Getenv("REDISCLI_AUTH"))
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	secure := func(config *tls.Config) {
		if config != nil { // it names no server: each is asked for its own
			config.ServerName, config.InsecureSkipVerify = "", unverified
		}
	}
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return err
		}
		o.Password, o.DialerRetries, o.MaintNotificationsConfig = cmp.Or(o.Password, password), 1, quiet
		secure(o.TLSConfig)
		c.rdb, c.at = redis.NewClusterClient(o), strings.Join(o.Addrs, ",")
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return err
		}
		o.Password, o.DialerRetries = cmp.Or(o.Password, password), 1
		o.SentinelPassword = cmp.Or(o.SentinelPassword, os.Getenv("FAIRLIMIT_SENTINEL_PASSWORD"))
		secure(o.TLSConfig)
		c.rdb, c.at = redis.NewFailoverClient(o), strings.Join(o.SentinelAddrs, ",")
	default:
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return err
		}
		o.Password, o.DialerRetries, o.MaintNotificationsConfig = cmp.Or(o.Password, password), 1, quiet
		secure(o.TLSConfig)
		c.rdb, c.at = redis.NewClient(o), o.Addr
	}
	return nil
}
