package main

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rest of an address is go-redis's to read, or is seen on servers of each kind.
func TestEachNodeIsAskedForACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	c := &connection{address: "rediss+cluster://u:p@a:1?addr=b:2&skip_verify=true"}
	require.NoError(t, c.connect())
	require.Equal(t, "a:1,b:2", c.at)
	o := c.rdb.(*redis.ClusterClient).Options()
	assert.Empty(t, o.TLSConfig.ServerName)
	assert.True(t, o.TLSConfig.InsecureSkipVerify)
	assert.Equal(t, 1, o.DialerRetries, "it fails soon")
}

func TestNoErrorRepeatsAPieceOfAPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://:secret", "redis://:secret/secret@h", "redis://u:secret@h:secret", "redis://u:sec%zzret@h",
		"redis://:secret?secret@h", "redis://:12#secret@h", "redis://u:12/secret@h", "redis://u:12?secret@h",
		"redis://u:secret@h/x/y", "redis://u:secret@h?nix=1", "redis://u:secret@h?read_timeout=x",
		"redis+sentinel://u:secret@h/m/x", "redis+cluster://u:secret@h?nix=1", "http://u:secret@h", "u:secret",
		"unix://u:secret@?nix=1", "redis:/u:secret@h",
	} {
		err := (&connection{address: text}).connect()
		require.Equal(t, statusUsage, status(err, false), text)
		require.NotContains(t, err.Error(), "secret", text)
	}
}
