package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairlimit/fairlimit"
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

// address is where Redis is, as -redis says it. No error of its functions
// repeats what may be a piece of a password.
type address struct {
	kind           string // "", "cluster", "sentinel" or "unix"
	secure         bool
	user, password string
	hosts          []string // each host:port
	path           string   // without the first slash
	query          url.Values
}

const schemes = "; want redis://, rediss://, redis+sentinel://, redis+cluster://, unix:// or host:port"

const wanted = schemes +
	". An @, #, / or %% that is part of a password has to be written as %%40, %%23, %%2F or %%25; " +
	"or put the password into $FAIRLIMIT_REDIS_PASSWORD"

var (
	// addressForm is scheme, its s, its kind, user, password, hosts, path and query.
	addressForm = regexp.MustCompile(`^(?:(redis(s)?(?:\+(cluster|sentinel))?|unix)://)?` +
		`(?:([^:/?#]*?)(?::([^/?#]*))?@)?([^@/?#]*)(?:/([^?@#]*))?(?:\?([^@#]*))?$`)

	// webForm is what was meant for something else.
	webForm = regexp.MustCompile(`^(https?|tcp|tls|ssl|ws|wss|valkeys?)://`)

	// schemeForm is any scheme.
	schemeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	knownForm  = regexp.MustCompile(`^(rediss?(\+(cluster|sentinel))?|unix)://$`)

	// hostForm is host and port.
	hostForm = regexp.MustCompile(`^([^:\[\]]+|\[[^\[\]]+\])(?::(\d{1,5}))?$`)
)

func parseAddress(text string) (*address, error) {
	if other := webForm.FindString(text); other != "" {
		return nil, misused("-redis: %s is no scheme of Redis%s", other, schemes)
	}
	if scheme := schemeForm.FindString(text); scheme != "" && !knownForm.MatchString(scheme) {
		return nil, misused("-redis: it has an unknown scheme" + wanted)
	}
	parts := addressForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, misused("-redis: it cannot be read" + wanted)
	}
	a := &address{kind: parts[3], secure: parts[2] != ""}
	var errs [4]error
	a.user, errs[0] = url.PathUnescape(parts[4])
	a.password, errs[1] = url.PathUnescape(parts[5])
	a.path, errs[2] = url.PathUnescape(parts[7])
	a.query, errs[3] = url.ParseQuery(parts[8])
	if errors.Join(errs[:]...) != nil {
		return nil, misused("-redis: it cannot be read" + wanted)
	}
	if parts[1] == "unix" {
		a.kind, a.hosts = "unix", []string{"/" + a.path}
		return a, nil
	}
	return a, a.readHosts(parts[6])
}

func (a *address) readHosts(hosts string) error {
	port := "6379"
	if a.kind == "sentinel" {
		port = "26379"
	}
	for i, host := range strings.Split(hosts, ",") {
		parts := hostForm.FindStringSubmatch(strings.TrimSpace(host))
		if parts == nil {
			return misused("-redis: address %d is no host:port"+wanted, i+1)
		}
		a.hosts = append(a.hosts, parts[1]+":"+cmp.Or(parts[2], port))
	}
	if len(a.hosts) > 1 && a.kind == "" {
		a.kind = "cluster"
	}
	return nil
}

// String is the address without user and password.
func (a *address) String() string { return strings.Join(a.hosts, ",") }

// client makes the client. It does no I/O.
func (a *address) client(sentinelPassword string) (redis.UniversalClient, error) {
	o := &redis.UniversalOptions{
		Addrs: a.hosts, Username: a.user, Password: a.password, SentinelPassword: sentinelPassword,
		IsClusterMode:            a.kind == "cluster",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	db := a.path
	switch a.kind {
	case "cluster":
		if db != "" && db != "0" {
			return nil, misused("-redis: a Cluster has no database but 0")
		}
	case "sentinel":
		if o.MasterName, db, _ = strings.Cut(a.path, "/"); o.MasterName == "" {
			return nil, misused("-redis: the master's name is missing: redis+sentinel://host:26379/MASTER")
		}
	case "unix":
		db = ""
	}
	if err := a.setOptions(o, db); err != nil {
		return nil, err
	}
	return redis.NewUniversalClient(o), nil
}

// setOptions reads those of the query as go-redis does.
func (a *address) setOptions(o *redis.UniversalOptions, db string) error {
	u := url.URL{Scheme: "rediss", Host: "host", Path: "/" + db, RawQuery: a.query.Encode()}
	read, err := redis.ParseURL(u.String())
	if err != nil { // by now there is no password in what it could repeat
		return misused("-redis: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	unverified := false
	if a.query.Has("skip_verify") {
		if unverified, err = strconv.ParseBool(a.query.Get("skip_verify")); err != nil {
			return misused("-redis: skip_verify is true or false")
		}
	}
	if a.secure { // it names no server: each is asked for its own
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: unverified}
	}
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
