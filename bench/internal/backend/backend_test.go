package backend

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAServerIsCalledWhatItIs(t *testing.T) {
	for name, info := range map[string]map[string]string{
		"redis 6.2.14": {"redis_version": "6.2.14"},
		"valkey 9.1.2": {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.1.2"},
		"valkey 7.2.7": {"redis_version": "7.2.4", "valkey_version": "7.2.7"},
	} {
		require.Equal(t, name, nameOf(info))
	}
}
