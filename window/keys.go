package window

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// keys are Redisson's for one limiter and one client, in the order in which the
// scripts want them: the rate; permits left, overall and of the client; grants,
// overall and of the client.
type keys [5]string

// keysOf names the keys. With more than one server they must share a hash tag,
// or no script could reach them together.
func keysOf(rdb redis.UniversalClient, name, client string) (keys, error) {
	left, grants := beside(name, "value"), beside(name, "permits")
	k := keys{name, left, left + ":" + client, grants, grants + ":" + client}
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		for _, key := range k {
			if hashed(key) != hashed(name) {
				return keys{}, unsupported("keys %q and %q of the limiter need not be on one server: "+
					"choose another name or client id", name, key)
			}
		}
	}
	return k, nil
}

// beside is the key that Redisson keeps beside name.
func beside(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// hashed is the part of a key that says where it is kept: what is between the
// first { and the next }, or the whole key if that is nothing. See "Hash tags"
// in the Redis Cluster specification.
func hashed(key string) string {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			return tag
		}
	}
	return key
}
