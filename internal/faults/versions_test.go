package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// oldVersion asks as the version did that wrote fair3: with its script, in its
// words. It is for quotas of one permit every so long.
type oldVersion struct {
	rdb *redis.Client
	key string
	per int64 // µs
}

// oldTake is assembled of that version's parts, without their comments.
const oldTake = "head open hot log windows grid histogram cells behind compact add recover begin write grant take"

// take asks for one permit, however long it takes, and knows nothing before.
func (o *oldVersion) take(t *testing.T) error {
	t.Helper()
	var source strings.Builder
	for _, part := range strings.Fields(oldTake) {
		text, err := os.ReadFile(filepath.Join("testdata", "fair3", part+".lua"))
		require.NoError(t, err)
		source.Write(text)
	}
	const letters, year = "abcdefghijklmnopqrstuvwxyz", 365 * 24 * time.Hour
	fresh := make([]byte, 8)
	for i := range fresh {
		fresh[i] = letters[rand.IntN(len(letters))]
	}
	return redis.NewScript(source.String()).Run(t.Context(), o.rdb, []string{o.key},
		fmt.Sprintf("fair3 1/%d - ", o.per), "", string(fresh)+" 0 0",
		1, o.per, (o.per+999)/1000+1, 1, year.Microseconds(), 1).Err()
}

// TestTwoVersionsOnOneNameRefuseEachOther has an old process and a new one ask
// in turns. Neither goes by what it cannot read, and neither destroys it. Once
// the queue of one has ended, or was reset, the other has it.
func TestTwoVersionsOnOneNameRefuseEachOther(t *testing.T) {
	t.Parallel()
	const per = 100 * time.Millisecond
	rdb, name := redistest.Standalone(t), redistest.Name(t)
	l := named(t, rdb, name, fairlimit.Every(per)).(*fairlimit.Queue)
	old := &oldVersion{rdb: rdb, key: limitertest.Key(name), per: per.Microseconds()}
	state := func() string { return rdb.Get(t.Context(), old.key).Val() }
	idle := func() bool { return rdb.Exists(t.Context(), old.key).Val() == 0 }
	reserve := func() error {
		_, err := l.ReserveN(t.Context(), 1)
		return err
	}

	for range 10 {
		require.NoError(t, reserve())
	}
	before := state()
	require.ErrorContains(t, old.take(t), "STATE ")
	assert.Equal(t, before, state(), "it is left as it is")
	require.Eventually(t, idle, 10*time.Second, time.Millisecond)

	for range 10 {
		require.NoError(t, old.take(t))
	}
	before = state()
	_, err := l.Status(t.Context())
	for what, err := range map[string]error{
		"reserve": reserve(), "wait": l.Wait(t.Context()), "status": err, "pause": l.Pause(t.Context(), time.Second),
	} {
		require.ErrorIs(t, err, fairlimit.ErrState, what)
	}
	assert.Equal(t, before, state(), "it is left as it is")
	require.Eventually(t, idle, 10*time.Second, time.Millisecond)
	require.NoError(t, reserve())

	require.NoError(t, rdb.Del(t.Context(), old.key).Err())
	require.NoError(t, old.take(t))
	require.NoError(t, l.Reset(t.Context()))
	require.NoError(t, reserve())
}
