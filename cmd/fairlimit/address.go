package main

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// address is where Redis is, as -redis says it. No error of its functions
// repeats what may be a piece of a password.
type address struct {
	kind             string // "", "cluster", "sentinel" or "unix"
	secure           bool
	unverified       bool // whoever answers is believed
	user, password   string
	sentinelPassword string
	hosts            []string // each host:port
	path             string   // without the first slash
	query            url.Values
}

const (
	misplaced = "-redis: an @, # or / that is part of a password has to be written as %%40, %%23 or %%2F; " +
		"or put the password into $FAIRLIMIT_REDIS_PASSWORD"
	forms = "want redis://, rediss://, redis+sentinel://, redis+cluster://, unix:// or host:port"
)

func parseAddress(text string) (*address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "redis", text
	}
	a := &address{}
	switch scheme {
	case "redis", "rediss":
	case "redis+cluster", "rediss+cluster":
		a.kind = "cluster"
	case "redis+sentinel", "rediss+sentinel":
		a.kind = "sentinel"
	case "unix":
		a.kind = "unix"
	default:
		return nil, misused("-redis: unknown scheme; %s", forms)
	}
	a.secure = strings.HasPrefix(scheme, "rediss")
	authority, tail := rest, ""
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		authority, tail = rest[:at], rest[at:]
	}
	if strings.ContainsAny(tail, "@#") {
		return nil, misused(misplaced)
	}
	if err := a.readTail(tail); err != nil {
		return nil, err
	}
	return a, a.readAuthority(authority)
}

func (a *address) readTail(tail string) (err error) {
	path, query, _ := strings.Cut(tail, "?")
	if a.path, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil {
		return misused("-redis: the path cannot be read")
	}
	if a.query, err = url.ParseQuery(query); err != nil {
		return misused("-redis: what follows ? cannot be read")
	}
	if a.query.Has("skip_verify") {
		if a.unverified, err = strconv.ParseBool(a.query.Get("skip_verify")); err != nil {
			return misused("-redis: skip_verify is true or false")
		}
		a.query.Del("skip_verify")
	}
	return nil
}

func (a *address) readAuthority(authority string) (err error) {
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at], authority[at+1:]
	}
	name, password, _ := strings.Cut(user, ":")
	if a.user, err = url.PathUnescape(name); err == nil {
		a.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return misused("-redis: a %% in a password has to be written as %%25; " +
			"or put the password into $FAIRLIMIT_REDIS_PASSWORD")
	}
	if a.kind == "unix" {
		return nil
	}
	port := "6379"
	if a.kind == "sentinel" {
		port = "26379"
	}
	for i, host := range strings.Split(hosts, ",") {
		full, ok := withPort(strings.TrimSpace(host), port)
		if !ok {
			return misused("-redis: address %d is no host:port; %s", i+1, forms)
		}
		a.hosts = append(a.hosts, full)
	}
	if len(a.hosts) > 1 && a.kind == "" {
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
func (a *address) String() string {
	if a.kind == "unix" {
		return "/" + a.path
	}
	return strings.Join(a.hosts, ",")
}
