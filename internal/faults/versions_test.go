package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/internal/limitertest"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

// oldVersion asks as the version did that knew of no pause: with its scripts,
// in its words. It is for quotas of one permit every so long.
type oldVersion struct {
	rdb  *redis.Client
	key  string
	per  int64 // µs
	seen string
	ends string
}

// oldScripts are assembled of that version's parts, without their comments.
var oldScripts = map[string]string{
	"take":    "head open hot log windows grid histogram cells behind compact add recover begin write grant take",
	"release": "head open log windows grid histogram cells behind compact add recover begin write release",
	"status":  "head open log windows grid histogram cells behind compact add recover begin write grant status",
}

func (o *oldVersion) run(t *testing.T, script string, args ...any) (any, error) {
	t.Helper()
	var source strings.Builder
	for _, part := range strings.Fields(oldScripts[script]) {
		text, err := os.ReadFile(filepath.Join("testdata", "before_pauses", part+".lua"))
		require.NoError(t, err)
		source.Write(text)
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	fresh := make([]byte, 8)
	for i := range fresh {
		fresh[i] = letters[rand.IntN(len(letters))]
	}
	ends := o.ends
	if o.seen == "" {
		ends = "0 0"
	}
	head := []any{fmt.Sprintf("fair3 1/%d - ", o.per), o.seen, string(fresh) + " " + ends}
	return redis.NewScript(source.String()).Run(t.Context(), o.rdb, []string{o.key}, append(head, args...)...).Result()
}

// oldGrant is what that version gives back.
type oldGrant struct {
	generation  string
	clock, slot int64
}

func (g oldGrant) wait() time.Duration { return time.Duration(g.slot-g.clock) * time.Microsecond }

// take asks for one permit, however long it takes.
func (o *oldVersion) take(t *testing.T) (g oldGrant, err error) {
	t.Helper()
	const year = 365 * 24 * time.Hour
	reply, err := o.run(t, "take", 1, o.per, (o.per+999)/1000+1, 1, year.Microseconds(), 1)
	if err != nil {
		return g, err
	}
	offset := int64(0)
	text, plain := reply.(string)
	if !plain {
		text = reply.([]any)[0].(string)
		offset = integer(t, text[strings.LastIndex(text, " ")+1:])
	}
	g = oldGrant{text[:8], integer(t, text[26:42]), integer(t, text[43:59])}
	o.seen, o.ends = text[:42], fmt.Sprintf("%d %d", g.slot-offset, g.slot+o.per-offset)
	return g, nil
}

func (o *oldVersion) giveBack(t *testing.T, g oldGrant) error {
	t.Helper()
	_, err := o.run(t, "release", g.generation, g.slot, 1, g.clock, 0)
	return err
}

func (o *oldVersion) queued(t *testing.T) (int64, error) {
	t.Helper()
	reply, err := o.run(t, "status")
	if err != nil {
		return 0, err
	}
	return reply.([]any)[1].(int64), nil
}

func integer(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimLeft(text, " "), 10, 64)
	require.NoError(t, err)
	return n
}

// TestTheVersionBeforePausesSharesAQueueUntilItIsPaused has an old process and
// a new one on one name. A pause is more than the old one can read: it says so,
// and lets nobody go. When the queue was idle, it works again.
func TestTheVersionBeforePausesSharesAQueueUntilItIsPaused(t *testing.T) {
	t.Parallel()
	const per, within, pause = 100 * time.Millisecond, 200 * time.Millisecond, time.Second
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	l := named(t, rdb, name, fairlimit.Every(per), fairlimit.WithPauseWithin(within)).(*fairlimit.Queue)
	knowing := &oldVersion{rdb: rdb, key: limitertest.Key(name), per: per.Microseconds()}
	state := func() string {
		text, err := rdb.Get(t.Context(), knowing.key).Result()
		require.NoError(t, err)
		return text
	}

	start := time.Now()
	_, err := l.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	var held oldGrant
	for i := range 5 { // they take turns, and each counts what the other was granted
		held, err = knowing.take(t)
		require.NoError(t, err)
		ours, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, ours.Delay(), time.Duration(2*i+2)*per-time.Since(start))
		assert.GreaterOrEqual(t, held.wait(), time.Duration(2*i+1)*per-time.Since(start))
	}
	atMost := status(t, l).Queued
	queued, err := knowing.queued(t)
	require.NoError(t, err)
	assert.LessOrEqual(t, int(queued), atMost, "both see the same")
	assert.GreaterOrEqual(t, int(queued), status(t, l).Queued)

	require.NoError(t, l.Pause(t.Context(), pause))
	paused, before := time.Now(), state()
	stranger := &oldVersion{rdb: rdb, key: knowing.key, per: knowing.per}
	refuses := func() {
		t.Helper()
		for who, old := range map[string]*oldVersion{"who knows the queue": knowing, "a stranger": stranger} {
			_, err := old.take(t)
			require.ErrorContains(t, err, "STATE ", who)
			require.ErrorContains(t, old.giveBack(t, held), "STATE ", who)
			_, err = old.queued(t)
			require.ErrorContains(t, err, "STATE ", who)
		}
	}
	refuses()
	assert.Equal(t, before, state(), "it is left as it is")
	turn, err := l.ReserveN(t.Context(), 1)
	require.NoError(t, err)
	for range 20 { // so that the state is there for a while
		_, err := l.ReserveN(t.Context(), 1)
		require.NoError(t, err)
	}
	require.NoError(t, turn.Wait(t.Context()), "the new version goes on")
	assert.GreaterOrEqual(t, time.Since(paused), pause)
	refuses()

	idle := func() bool { return rdb.Exists(t.Context(), knowing.key).Val() == 0 }
	require.Eventually(t, idle, 10*time.Second, time.Millisecond)
	for _, old := range []*oldVersion{knowing, stranger} {
		_, err := old.take(t)
		require.NoError(t, err)
	}
	require.NoError(t, l.Wait(t.Context()))
	assert.Zero(t, status(t, l).Paused)
}
