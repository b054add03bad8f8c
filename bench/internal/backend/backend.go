// Package backend is the Redis under the engines: an embedded one, one that is
// given, or a server of the program's own.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairlimit/fairlimit/embedded"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// patience is how long a server may take to answer at first.
const patience = 3 * time.Second

// What goes wrong is told once, by whoever asked. The switch is the whole
// program's, and must not be touched once there are clients.
func init() { logging.Disable() }

// ErrNoServer says that there is no redis-server to start.
var ErrNoServer = errors.New("there is no redis-server in PATH")

// Backend is a server that answers.
type Backend struct {
	Name   string // as the reports call it
	Addr   string // for clients
	Client *redis.Client
	Close  func() // ends the server if it is ours, and the connection to it

	// Process is nil if the program has not started one.
	Process *redistest.Server
}

// Open uses the server at addr, or starts an embedded one for "".
func Open(ctx context.Context, addr string) (*Backend, error) {
	if addr == "" {
		server, err := embedded.Start()
		if err != nil {
			return nil, err
		}
		return &Backend{Name: "embedded", Addr: server.Addr(), Client: server.Client(), Close: server.Close}, nil
	}
	client, err := Connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	info := client.InfoMap(ctx, "server").Val()["Server"]
	return &Backend{Name: nameOf(info), Addr: addr, Client: client, Close: func() { _ = client.Close() }}, nil
}

// Start starts a redis-server process on a free port of the loopback interface,
// without persistence, that ends with this program or before.
// FAIRLIMIT_REDIS_SERVER names another program. If it is not installed, the
// error matches ErrNoServer.
func Start(ctx context.Context) (*Backend, error) {
	if _, err := exec.LookPath(redistest.ServerProgram()); err != nil {
		return nil, ErrNoServer
	}
	server, err := redistest.Start()
	if err != nil {
		return nil, fmt.Errorf("a redis-server cannot be started: %w", err)
	}
	return &Backend{
		Name: nameOf(server.Client().InfoMap(ctx, "server").Val()["Server"]), Addr: server.Addr(),
		Client: server.Client(), Close: server.Stop, Process: server,
	}, nil
}

// nameOf is the name and version of a server. A Valkey says as well which Redis
// its clients may take it for.
func nameOf(info map[string]string) string {
	if version := info["valkey_version"]; version != "" {
		return cmp.Or(info["server_name"], "valkey") + " " + version
	}
	return strings.TrimSpace("redis " + info["redis_version"])
}

// Connect returns a client of the server at host:port, or at a redis:// URL,
// once the server has answered.
func Connect(ctx context.Context, addr string) (*redis.Client, error) {
	options := &redis.Options{Addr: addr}
	if strings.Contains(addr, "://") {
		var err error
		if options, err = redis.ParseURL(addr); err != nil {
			return nil, fmt.Errorf("-redis %s cannot be read: %w", addr, err)
		}
	}
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("no Redis answers at %s (%w): start one there, or leave -redis out", addr, err)
	}
	return client, nil
}

// Served is what a server says of the scripts that it has run in its life. All
// engines ask for turns by scripts alone.
type Served struct{ Runs, Micros float64 }

// ErrUncounted says that a server does not count.
var ErrUncounted = errors.New("this server does not say how long its commands take (INFO commandstats)")

// ServedBy asks the server. An error matches ErrUncounted.
func ServedBy(ctx context.Context, rdb *redis.Client) (s Served, err error) {
	stats := rdb.InfoMap(ctx, "commandstats").Val()["Commandstats"]
	if len(stats) == 0 {
		return s, ErrUncounted
	}
	for _, command := range []string{"evalsha", "evalsha_ro", "eval", "eval_ro", "fcall", "fcall_ro"} {
		var runs, micros float64
		_, _ = fmt.Sscanf(stats["cmdstat_"+command], "calls=%f,usec=%f", &runs, &micros)
		s.Runs, s.Micros = s.Runs+runs, s.Micros+micros
	}
	return s, nil
}

// Since is what was served since an earlier moment.
func (s Served) Since(before Served) Served {
	return Served{s.Runs - before.Runs, s.Micros - before.Micros}
}

// Remove deletes every key whose name contains the given one, each on its own,
// as a Cluster wants it.
func Remove(ctx context.Context, rdb *redis.Client, name string) error {
	keys := rdb.Scan(ctx, 0, "*"+name+"*", 10_000).Iterator()
	err := error(nil)
	for err == nil && keys.Next(ctx) {
		err = rdb.Del(ctx, keys.Val()).Err()
	}
	if err = cmp.Or(err, keys.Err()); err != nil {
		return fmt.Errorf("what the run left in Redis was not removed: %w", err)
	}
	return nil
}
