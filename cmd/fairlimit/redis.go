package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	defaultPrefix  = "fairlimit:"
	defaultAddress = "localhost:6379"

	// dialTimeout is short, as a port without TLS leaves a handshake unanswered.
	// A lost packet is sent again within it.
	dialTimeout = 2 * time.Second
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

	rdb redis.UniversalClient
	at  string // its address, without a password
}

func (c *connection) define(flags *pflag.FlagSet) {
	flags.StringVar(&c.address, "redis", "", "`URL` of Redis; else $FAIRLIMIT_REDIS, else "+defaultAddress)
	flags.StringVar(&c.prefix, "prefix", defaultPrefix, "prefix `P` of the keys")
}

// complete offers the names of queues for the first word.
func (c *connection) complete(
	cmd *cobra.Command, words []string, _ string,
) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	// A person waits so long after pressing tab.
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if len(words) == 0 && c.connect() == nil {
		found, _ = c.names(ctx) // a line cannot show an error while it is typed
		found = slices.DeleteFunc(found, func(name string) bool { return printable(name) != name })
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// connect asks nothing yet.
func (c *connection) connect() error {
	o, err := parseAddress(cmp.Or(c.address, os.Getenv("FAIRLIMIT_REDIS"), defaultAddress))
	if err != nil {
		return err
	}
	o.Password = cmp.Or(o.Password, os.Getenv("FAIRLIMIT_REDIS_PASSWORD"), os.Getenv("REDISCLI_AUTH"))
	o.SentinelPassword = os.Getenv("FAIRLIMIT_SENTINEL_PASSWORD")
	c.at, c.rdb = strings.Join(o.Addrs, ","), redis.NewUniversalClient(o)
	return nil
}

const wanted = "; want redis://, rediss://, redis+sentinel://, redis+cluster://, unix:// or host:port. " +
	"An @, #, / or %% that is part of a password has to be written as %%40, %%23, %%2F or %%25; " +
	"or put the password into $FAIRLIMIT_REDIS_PASSWORD"

var (
	// addressForm is secure, kind, unix, user, password, hosts, path and query.
	addressForm = regexp.MustCompile(`^(?:(?:redis(s)?(?:\+(cluster|sentinel))?|(unix))://)?` +
		`(?:([^:/?#]*?)(?::([^/?#]*))?@)?([^@/?#]*)(?:/([^?@#]*))?(?:\?([^@#]*))?$`)

	// hostForm is host and port.
	hostForm = regexp.MustCompile(`^([^:\[\]]+|\[[^\[\]]+\])(:\d{1,5})?$`)
)

// parseAddress reads what -redis says. Its errors repeat nothing that may be a
// piece of a password.
func parseAddress(text string) (*redis.UniversalOptions, error) {
	parts := addressForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, misused("-redis: it cannot be read" + wanted)
	}
	secure, kind, isUnix := parts[1] != "", parts[2], parts[3] != ""
	user, err := url.PathUnescape(parts[4])
	password, err2 := url.PathUnescape(parts[5])
	path, err3 := url.PathUnescape(parts[7])
	query, err4 := url.ParseQuery(parts[8])
	if errors.Join(err, err2, err3, err4) != nil {
		return nil, misused("-redis: it cannot be read" + wanted)
	}
	o := &redis.UniversalOptions{Username: user, Password: password}
	if isUnix {
		o.Addrs, path = []string{"/" + path}, ""
	} else if o.Addrs, err = hosts(parts[6], kind); err != nil {
		return nil, err
	}
	o.IsClusterMode = kind == "cluster" || kind == "" && len(o.Addrs) > 1
	if kind == "sentinel" {
		if o.MasterName, path, _ = strings.Cut(path, "/"); o.MasterName == "" {
			return nil, misused("-redis: the master's name is missing: redis+sentinel://host:26379/MASTER")
		}
	} else if o.IsClusterMode && path != "" && path != "0" {
		return nil, misused("-redis: a Cluster has no database but 0")
	}
	return o, setOptions(o, secure, path, query)
}

func hosts(list, kind string) (all []string, err error) {
	port := ":6379"
	if kind == "sentinel" {
		port = ":26379"
	}
	for i, host := range strings.Split(list, ",") {
		parts := hostForm.FindStringSubmatch(strings.TrimSpace(host))
		if parts == nil {
			return nil, misused("-redis: address %d is no host:port"+wanted, i+1)
		}
		all = append(all, parts[1]+cmp.Or(parts[2], port))
	}
	return all, nil
}

// setOptions reads those of the query as go-redis does.
func setOptions(o *redis.UniversalOptions, secure bool, db string, query url.Values) error {
	u := url.URL{Scheme: "rediss", Host: "host", Path: "/" + db, RawQuery: query.Encode()}
	read, err := redis.ParseURL(u.String())
	if err != nil { // by now there is no password in what it could repeat
		return misused("-redis: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	unverified, err := strconv.ParseBool(cmp.Or(query.Get("skip_verify"), "false"))
	if err != nil || query.Has("skip_verify") && query.Get("skip_verify") == "" {
		return misused("-redis: skip_verify is true or false")
	}
	if secure { // it names no server: each is asked for its own
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: unverified}
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.DB, o.Protocol, o.ClientName = read.DB, read.Protocol, read.ClientName
	// A command is to fail soon where Redis is not there.
	o.MaxRetries, o.DialerRetries = cmp.Or(read.MaxRetries, -1), 1
	o.MinRetryBackoff, o.MaxRetryBackoff = read.MinRetryBackoff, read.MaxRetryBackoff
	o.DialTimeout = cmp.Or(read.DialTimeout, dialTimeout)
	o.ReadTimeout, o.WriteTimeout = read.ReadTimeout, read.WriteTimeout
	o.PoolFIFO, o.PoolSize, o.PoolTimeout = read.PoolFIFO, read.PoolSize, read.PoolTimeout
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = read.MinIdleConns, read.MaxIdleConns, read.MaxActiveConns
	o.MaxConcurrentDials, o.ConnMaxIdleTime = read.MaxConcurrentDials, read.ConnMaxIdleTime
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = read.ConnMaxLifetime, read.ConnMaxLifetimeJitter
	return nil
}
