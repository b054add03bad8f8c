package redistest

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// quiet is how many looks, a millisecond apart, find no call under way before a
// client is closed. A call to a Cluster is on no connection between two of its
// questions, and neither is what a client asks on its own.
const quiet = 30

// Close closes a client of a real server once no call of it is under way any
// more, or after ten seconds. A go-redis client that is closed earlier looks at
// connections that a call still reads from, which is a data race of its own.
func Close(rdb redis.UniversalClient) {
	end := time.Now().Add(10 * time.Second)
	for looks := 0; looks < quiet && time.Now().Before(end); looks++ {
		if isBusy(rdb) {
			looks = 0
		}
		time.Sleep(time.Millisecond)
	}
	_ = rdb.Close()
}

// isBusy reports whether a connection is in use.
func isBusy(rdb redis.UniversalClient) bool {
	stats := rdb.PoolStats()
	return stats.TotalConns > stats.IdleConns
}
