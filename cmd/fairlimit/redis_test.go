package main

import (
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/internal/redistest"
)

func clientOf(t *testing.T, text string) redis.UniversalClient {
	t.Helper()
	o, err := parseAddress(text)
	require.NoError(t, err)
	rdb := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestOneServerByItsAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]redis.Options{
		"h":                             {Addr: "h:6379"},
		"h:7":                           {Addr: "h:7"},
		"[::1]":                         {Addr: "[::1]:6379"},
		"[::1]:7":                       {Addr: "[::1]:7"},
		"u:p@h:7":                       {Addr: "h:7", Username: "u", Password: "p"},
		"redis://h":                     {Addr: "h:6379"},
		"redis://:p@h":                  {Addr: "h:6379", Password: "p"},
		"redis://u@h:7/3":               {Addr: "h:7", Username: "u", DB: 3},
		"redis://u:p@ss@h":              {Addr: "h:6379", Username: "u", Password: "p@ss"},
		"redis://u:p%40%2F%23%25:,@h/?": {Addr: "h:6379", Username: "u", Password: "p@/#%:,"},
		"unix:///run/redis.sock":        {Addr: "/run/redis.sock"},
		"unix://u:p@/run/r.sock?db=2":   {Addr: "/run/r.sock", Username: "u", Password: "p", DB: 2},
	} {
		t.Run(text, func(t *testing.T) {
			o := clientOf(t, text).(*redis.Client).Options()
			assert.Equal(t, want, redis.Options{Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB})
			assert.Nil(t, o.TLSConfig)
		})
	}
}

func TestSecureServersAreVerifiedUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for text, unverified := range map[string]bool{
		"rediss://h:7": false, "rediss://h:7?skip_verify=true": true, "rediss+cluster://h:7?skip_verify=true": true,
	} {
		o, err := parseAddress(text)
		require.NoError(t, err)
		require.Equal(t, unverified, o.TLSConfig.InsecureSkipVerify)
		require.Empty(t, o.TLSConfig.ServerName, "each node is asked for its own")
	}
}

func TestTheQuerySetsOptionsOfTheClient(t *testing.T) {
	t.Parallel()
	const query = "?protocol=2&client_name=n&max_retries=3&min_retry_backoff=4ms&max_retry_backoff=5s&dial_timeout=6s" +
		"&read_timeout=7s&write_timeout=8s&pool_fifo=true&pool_size=9&pool_timeout=10s&min_idle_conns=1&max_idle_conns=2" +
		"&max_active_conns=11&max_concurrent_dials=3&conn_max_idle_time=12s&conn_max_lifetime=13s" +
		"&conn_max_lifetime_jitter=1s"
	want, err := redis.ParseURL("redis://h" + query)
	require.NoError(t, err)
	for _, o := range []any{
		*clientOf(t, "redis://h"+query).(*redis.Client).Options(),
		*clientOf(t, "redis+cluster://h"+query).(*redis.ClusterClient).Options(),
	} {
		for name := range strings.SplitSeq("Protocol ClientName MaxRetries MinRetryBackoff MaxRetryBackoff DialTimeout "+
			"ReadTimeout WriteTimeout PoolFIFO PoolSize PoolTimeout MinIdleConns MaxIdleConns MaxActiveConns "+
			"MaxConcurrentDials ConnMaxIdleTime ConnMaxLifetime ConnMaxLifetimeJitter", " ") {
			value := func(o any) any { return reflect.ValueOf(o).FieldByName(name).Interface() }
			assert.NotZero(t, value(*want), name)
			assert.Equal(t, value(*want), value(o), name)
		}
	}
}

func TestAClusterByItsNodes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a:1,b:2":               {"a:1", "b:2"},
		"a,b":                   {"a:6379", "b:6379"},
		"redis://u:p@a:1,b:2/0": {"a:1", "b:2"},
		"redis+cluster://a":     {"a:6379"},
		"redis+cluster://u:p@a:1,[::1]:2?pool_size=2": {"a:1", "[::1]:2"},
	} {
		o := clientOf(t, text).(*redis.ClusterClient).Options()
		assert.Equal(t, want, o.Addrs, text)
		if strings.Contains(text, "@") {
			assert.Equal(t, "u:p", o.Username+":"+o.Password)
		}
	}
}

func TestNoErrorRepeatsAPieceOfAPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://:secret", "redis://:secret@", "redis://u:secret@h:secret", "redis://u:sec%zzret@h",
		"redis://:secret/secret@h",
		"redis://:secret?secret@h", "redis://:secret#secret@h", "redis://u:secret@h/x/y", "redis://u:secret@h/x",
		"secret://x",
		"redis://u:secret@h?nix=1", "redis://u:secret@h?db=x", "redis://u:secret@h,", "redis+sentinel://u:secret@h",
		"redis+cluster://u:secret@h?nix=1", "redis+cluster://u:secret@h/1", "redis+sentinel://u:secret@h/m/x",
		"redis+sentinel://u:secret@h/m?nix=1", "http://u:secret@h", "tcp://secret:1",
		"redis://u:secret@h?%zz", "redis://u:secret@h/%zz", "unix://u:secret@?nix=1",
		"redis://u:secret@h?read_timeout=x", "redis://u:secret@h?skip_verify=x", "u:secret@h:x", "u:secret",
		"redis:/u:secret@h", "/u:secret@h",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := parseAddress(text)
			require.ErrorAs(t, err, new(usageError))
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestThePortOfAnotherKindIsNamed(t *testing.T) {
	t.Parallel()
	server, secure, _ := redistest.StartTLSServer(t)
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	for where, says := range map[string]string{
		secure:                                      "if that is a TLS port, use rediss://",
		"rediss://" + server.Addr():                 "if that port is without TLS, use redis://",
		web.Listener.Addr().String():                "that is an HTTP server, not Redis",
		"redis+sentinel://" + secure + "/m":         "if that is a TLS port, use rediss://",
		"redis+cluster://" + secure:                 "if that is a TLS port, use rediss://",
		"rediss+cluster://" + server.Addr():         "if that port is without TLS, use redis://",
		"rediss+sentinel://" + server.Addr() + "/m": "if that port is without TLS, use redis://",
	} {
		for _, command := range []string{"ls", "serve tax=1/1s", "wait tax -quota 1/1s -- true"} {
			t.Run(command+" "+where, func(t *testing.T) {
				t.Parallel()
				r := finish(t, process(nil, strings.Fields("-redis "+where+" "+command)...))
				assert.Contains(t, []int{3, 123}, r.status, r.err)
				assert.Contains(t, r.err, says)
				assert.Contains(t, r.err, regexp.MustCompile(`127.0.0.1:\d+`).FindString(where))
			})
		}
	}
}
