package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// address is where Redis is, as -redis says it. No error of its functions
// repeats what may be a piece of a password.
type address struct {
	kind           string // "redis", "cluster", "sentinel" or "unix"
	secure         bool
	user, password string
	hosts          []string // each host:port
	path           string   // without the first slash
	query          url.Values
}

const (
	misplaced = "-redis: an @, #, / or %% that is part of a password has to be written as %%40, %%23, %%2F or %%25; " +
		"or put the password into $FAIRLIMIT_REDIS_PASSWORD"
	forms = "want redis://, rediss://, redis+sentinel://, redis+cluster://, unix:// or host:port"
)

// addressForm is scheme, user, password, hosts, path and query. In the first
// four / and # cannot stand, in the last two no @ and no # can.
var addressForm = regexp.MustCompile(
	`^(?:([^/?#]*)://)?(?:([^:/?#]*?)(?::([^/?#]*))?@)?([^@/?#]*)(?:/([^?@#]*))?(?:\?([^@#]*))?$`)

var schemes = map[string]address{
	"":                {kind: "redis"},
	"redis":           {kind: "redis"},
	"rediss":          {kind: "redis", secure: true},
	"redis+cluster":   {kind: "cluster"},
	"rediss+cluster":  {kind: "cluster", secure: true},
	"redis+sentinel":  {kind: "sentinel"},
	"rediss+sentinel": {kind: "sentinel", secure: true},
	"unix":            {kind: "unix"},
}

func parseAddress(text string) (*address, error) {
	parts := addressForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, misused(misplaced)
	}
	a, known := schemes[parts[1]]
	if !known {
		return nil, misused("-redis: unknown scheme; %s", forms)
	}
	var errs [4]error
	a.user, errs[0] = url.PathUnescape(parts[2])
	a.password, errs[1] = url.PathUnescape(parts[3])
	a.path, errs[2] = url.PathUnescape(parts[5])
	a.query, errs[3] = url.ParseQuery(parts[6])
	if errors.Join(errs[:]...) != nil {
		return nil, misused(misplaced)
	}
	return &a, a.readHosts(parts[4])
}

func (a *address) readHosts(hosts string) error {
	port := "6379"
	switch a.kind {
	case "unix":
		a.hosts = []string{"/" + a.path}
		return nil
	case "sentinel":
		port = "26379"
	}
	for i, host := range strings.Split(hosts, ",") {
		full, ok := withPort(strings.TrimSpace(host), port)
		if !ok {
			return misused("-redis: address %d is no host:port; %s", i+1, forms)
		}
		a.hosts = append(a.hosts, full)
	}
	if len(a.hosts) > 1 && a.kind == "redis" {
		a.kind = "cluster"
	}
	return nil
}

// withPort is host:port; the port may be missing.
func withPort(text, port string) (string, bool) {
	host, given, err := net.SplitHostPort(text)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		if strings.Contains(host, ":") != strings.HasPrefix(text, "[") {
			return "", false
		}
		given = port
	}
	if _, err := strconv.ParseUint(given, 10, 16); err != nil || host == "" {
		return "", false
	}
	return net.JoinHostPort(host, given), true
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
	o.MaxRetries, o.DialerRetries = cmp.Or(read.MaxRetries, 1), 1
	o.MinRetryBackoff, o.MaxRetryBackoff = read.MinRetryBackoff, read.MaxRetryBackoff
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = read.DialTimeout, read.ReadTimeout, read.WriteTimeout
	o.PoolFIFO, o.PoolSize, o.PoolTimeout = read.PoolFIFO, read.PoolSize, read.PoolTimeout
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = read.MinIdleConns, read.MaxIdleConns, read.MaxActiveConns
	o.MaxConcurrentDials, o.ConnMaxIdleTime = read.MaxConcurrentDials, read.ConnMaxIdleTime
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = read.ConnMaxLifetime, read.ConnMaxLifetimeJitter
	return nil
}
