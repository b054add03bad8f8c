package main

import (
	"fmt"
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

func TestAnAddressIsRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"h":                             "[h:6379]",
		"h:7":                           "[h:7]",
		"[::1]":                         "[[::1]:6379]",
		"[::1]:7":                       "[[::1]:7]",
		"u:p@h:7":                       "[h:7] user u password p",
		"redis://h":                     "[h:6379]",
		"redis://:p@h":                  "[h:6379] password p",
		"redis://u@h:7/3":               "[h:7] user u db 3",
		"redis://u:p@ss@h":              "[h:6379] user u password p@ss",
		"redis://u:p%40%2F%23%25:,@h/?": "[h:6379] user u password p@/#%:,",
		"unix:///run/redis.sock":        "[/run/redis.sock]",
		"unix://u:p@/run/r.sock?db=2":   "[/run/r.sock] user u password p db 2",
		"rediss://h:7":                  "[h:7] secure",
		"rediss://h:7?skip_verify=true": "[h:7] secure unverified",
		"a:1,b:2":                       "[a:1 b:2] cluster",
		"a,b":                           "[a:6379 b:6379] cluster",
		"redis://u:p@a:1,b:2/0":         "[a:1 b:2] user u password p cluster",
		"redis+cluster://a":             "[a:6379] cluster",
		"redis+sentinel://a,b:7/m/2":    "[a:26379 b:7] db 2 master m",
		"redis+cluster://a:1,[::1]:2?pool_size=2":   "[a:1 [::1]:2] cluster",
		"rediss+cluster://h:7?skip_verify=true":     "[h:7] cluster secure unverified",
		"rediss+sentinel://:p@h/m?skip_verify=true": "[h:26379] password p master m secure unverified",
	} {
		o, err := parseAddress(text)
		require.NoError(t, err)
		got := fmt.Sprint(o.Addrs)
		for _, part := range []struct {
			given bool
			says  string
		}{
			{o.Username != "", " user " + o.Username},
			{o.Password != "", " password " + o.Password},
			{o.DB != 0, fmt.Sprint(" db ", o.DB)},
			{o.IsClusterMode, " cluster"},
			{o.MasterName != "", " master " + o.MasterName},
			{o.TLSConfig != nil, " secure"},
			{o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify, " unverified"},
			{o.TLSConfig != nil && o.TLSConfig.ServerName != "", " of one name"}, // each is asked for its own
		} {
			if part.given {
				got += part.says
			}
		}
		assert.Equal(t, want, got, text)
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
	got, err := parseAddress("redis+cluster://h" + query)
	require.NoError(t, err)
	for name := range strings.SplitSeq("Protocol ClientName MaxRetries MinRetryBackoff MaxRetryBackoff DialTimeout "+
		"ReadTimeout WriteTimeout PoolFIFO PoolSize PoolTimeout MinIdleConns MaxIdleConns MaxActiveConns "+
		"MaxConcurrentDials ConnMaxIdleTime ConnMaxLifetime ConnMaxLifetimeJitter", " ") {
		value := func(o any) any { return reflect.ValueOf(o).Elem().FieldByName(name).Interface() }
		assert.NotZero(t, value(want), name)
		assert.Equal(t, value(want), value(got), name)
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
