package main

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func TestAnAddressIsRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"h":                             "h:6379",
		"h:7":                           "h:7",
		"[::1]:7":                       "[::1]:7",
		"u:p@h:7":                       "h:7 u p",
		"redis://u@h:7/3":               "h:7 u db3",
		"redis://u:p%40%2F%23%25:,@h/?": "h:6379 u p@/#%:,",
		"unix://u:p@/run/r.sock?db=2":   "/run/r.sock u p db2",
		"rediss://h:7":                  "h:7 secure",
		"rediss://h:7?skip_verify=true": "h:7 unverified",
	} {
		c := &connection{address: text}
		require.NoError(t, c.connect(), text)
		o := c.rdb.(*redis.Client).Options()
		got := []string{c.at, o.Username, o.Password, "", ""}
		if o.DB != 0 {
			got[3] = "db" + string(rune('0'+o.DB))
		}
		if o.TLSConfig != nil {
			got[4] = map[bool]string{true: "unverified", false: "secure"}[o.TLSConfig.InsecureSkipVerify]
			assert.Empty(t, o.TLSConfig.ServerName)
		}
		assert.Equal(t, strings.Fields(want), strings.Fields(strings.Join(got, " ")), text)
		assert.Equal(t, 1, o.DialerRetries, "it fails soon")
	}
	c := &connection{address: "rediss+cluster://u:p@a:1?addr=b:2&skip_verify=true"}
	require.NoError(t, c.connect())
	require.Equal(t, "a:1,b:2", c.at)
	require.True(t, c.rdb.(*redis.ClusterClient).Options().TLSConfig.InsecureSkipVerify)
	c.address = "redis+sentinel://a:1/2?addr=b:2&master_name=m"
	require.NoError(t, c.connect())
	require.Equal(t, "a:1,b:2", c.at)
	require.Equal(t, 2, c.rdb.(*redis.Client).Options().DB)
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

func TestThePortOfAnotherKindIsNamed(t *testing.T) {
	t.Parallel()
	server, secure, _ := redistest.StartTLSServer(t)
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	for where, says := range map[string]string{
		secure:                              "if that is a TLS port, use rediss://",
		"rediss://" + server.Addr():         "if that port is without TLS, use redis://",
		web.Listener.Addr().String():        "that is an HTTP server, not Redis",
		"redis+cluster://" + secure:         "if that is a TLS port, use rediss://",
		"rediss+cluster://" + server.Addr(): "if that port is without TLS, use redis://",
	} {
		for _, command := range []string{"ls", "wait tax -quota 1/1s -- true"} {
			r := finish(t, process(nil, strings.Fields("-redis "+where+" "+command)...))
			assert.Contains(t, []int{3, 123}, r.status, r.err)
			assert.Contains(t, r.err, says)
			assert.Contains(t, r.err, regexp.MustCompile(`127.0.0.1:\d+`).FindString(where))
		}
	}
}
