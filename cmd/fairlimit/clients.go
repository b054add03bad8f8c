package main

import (
	"crypto/tls"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// client makes the client. It does no I/O.
func (a *address) client() (redis.UniversalClient, error) {
	switch a.kind {
	case "cluster":
		return a.cluster()
	case "sentinel":
		return a.failover()
	}
	u := url.URL{Scheme: "redis", RawQuery: a.query.Encode()}
	if a.kind == "unix" {
		u.Scheme, u.Path = "unix", "/"+a.path
	} else {
		u.Host, u.Path = a.hosts[0], "/"+a.path
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, unreadable(err)
	}
	o.Username, o.Password, o.TLSConfig, o.MaintNotificationsConfig = a.user, a.password, a.tls(), noNotifications
	hurry(&o.MaxRetries, &o.DialerRetries)
	return redis.NewClient(o), nil
}

func (a *address) cluster() (redis.UniversalClient, error) {
	if a.path != "" && a.path != "0" {
		return nil, misused("-redis: a Cluster has no database but 0")
	}
	a.query["addr"] = append(a.query["addr"], a.hosts[1:]...)
	u := url.URL{Scheme: "redis", Host: a.hosts[0], RawQuery: a.query.Encode()}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, unreadable(err)
	}
	o.Username, o.Password, o.TLSConfig, o.MaintNotificationsConfig = a.user, a.password, a.tls(), noNotifications
	hurry(&o.MaxRetries, &o.DialerRetries)
	return redis.NewClusterClient(o), nil
}

func (a *address) failover() (redis.UniversalClient, error) {
	master, db, _ := strings.Cut(a.path, "/")
	if master == "" {
		return nil, misused("-redis: the master's name is missing: redis+sentinel://host:26379/MASTER")
	}
	a.query.Set("master_name", master)
	if db != "" {
		a.query.Set("db", db)
	}
	a.query["addr"] = append(a.query["addr"], a.hosts[1:]...)
	u := url.URL{Scheme: "redis", Host: a.hosts[0], RawQuery: a.query.Encode()}
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, unreadable(err)
	}
	o.Username, o.Password, o.TLSConfig, o.SentinelPassword = a.user, a.password, a.tls(), a.sentinelPassword
	hurry(&o.MaxRetries, &o.DialerRetries)
	return redis.NewFailoverClient(o), nil
}

// tls names no server: each is asked for its own.
func (a *address) tls() *tls.Config {
	if !a.secure {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.unverified}
}

// unreadable is for an error of go-redis: by now there is no password in what
// it could repeat.
func unreadable(err error) error {
	return misused("-redis: %s", strings.TrimPrefix(err.Error(), "redis: "))
}

// hurry lets a command fail soon where Redis is not there.
func hurry(retries, dials *int) {
	if *retries == 0 {
		*retries = 1
	}
	if *dials == 0 {
		*dials = 1
	}
}

var noNotifications = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
