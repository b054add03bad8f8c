package redistest

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Close closes a client of a real server once no call of it is under way any
// more, or after ten seconds. A go-redis client that is closed earlier looks at
// connections that a call still reads from, which is a data race of its own.
func Close(rdb redis.UniversalClient) {
	for end := time.Now().Add(10 * time.Second); isBusy(rdb) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = rdb.Close()
}

// isBusy reports whether a connection is in use.
func isBusy(rdb redis.UniversalClient) bool {
	stats := rdb.PoolStats()
	return stats.TotalConns > stats.IdleConns
}
