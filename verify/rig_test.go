package verify

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/engine"
	"github.com/fairlimit/fairlimit/fair"
	"github.com/fairlimit/fairlimit/internal/model"
	"github.com/fairlimit/fairlimit/internal/redistest"
)

const (
	name = "tax-office"
	key  = "fairlimit:{" + name + "}"

	beginning = int64(1_700_000_000_123_456) // µs
	second    = int64(1_000_000)
	within    = second // engine.Within: until everybody has heard

	mostCells = 512
)

var ctx = context.Background()

// Short, unless -rapid.checks says more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// server is a Redis whose time passes as the test says.
type server struct {
	mini   *redistest.MiniServer
	client *redis.Client
	now    int64 // true time, in µs
	ahead  int64 // of the server's clock
}

func newServer(t *testing.T) *server {
	s := &server{mini: redistest.Mini(t)}
	s.client = s.mini.Client
	return s
}

// begin is an empty server at the beginning of a history.
func (s *server) begin() {
	s.mini.FlushAll()
	s.now, s.ahead = beginning, 0
	s.setTime()
}

func (s *server) pass(d int64) {
	s.now += d
	s.setTime()
}

func (s *server) setTime() { s.mini.SetTime(time.UnixMicro(s.now + s.ahead)) }

// checkKeys looks at all keys: no log is longer than it may be, and all expire.
func checkKeys(t require.TestingT, client *redis.Client) {
	for _, k := range client.Keys(ctx, key+"*").Val() {
		if strings.HasSuffix(k, ":quota") {
			continue
		}
		if client.Type(ctx, k).Val() == "zset" {
			require.LessOrEqual(t, client.ZCard(ctx, k).Val(), int64(mostCells), k)
		}
		require.NotEqual(t, time.Duration(-1), client.PTTL(ctx, k).Val(), "%s has no TTL", k)
	}
}

// limit is a quota with units and a guard, and its windows.
type limit struct {
	quotas []engine.Quota
	units  []engine.Unit
	guard  time.Duration
}

func (l *limit) engine(t require.TestingT, client redis.UniversalClient) engine.Queue {
	e, err := fair.New(engine.Config{
		Client: client, Name: name, Quota: l.quotas[0], Extra: l.quotas[1:], Units: l.units, Guard: &l.guard,
	})
	require.NoError(t, err)
	return e.(engine.Queue)
}

// windows are those of each unit.
func (l *limit) windows() [][]model.Window {
	all := [][]model.Window{nil}
	add := func(u int, quotas []engine.Quota) {
		for _, q := range quotas {
			all[u] = append(all[u], model.Windows(q.Permits, (q.Per+l.guard).Microseconds(), q.Burst)...)
		}
	}
	add(0, l.quotas)
	for i, u := range l.units {
		all = append(all, nil)
		add(i+1, u.Quotas)
	}
	return all
}

// most is how much of each unit fits.
func (l *limit) most() []int {
	var all []int
	for _, windows := range l.windows() {
		most := windows[0].Permits
		for _, w := range windows {
			most = min(most, w.Permits)
		}
		all = append(all, most)
	}
	return all
}

// span is the longest window.
func (l *limit) span() (span int64) {
	for _, windows := range l.windows() {
		for _, w := range windows {
			span = max(span, w.Length)
		}
	}
	return span
}

func genQuota(scale time.Duration) *rapid.Generator[engine.Quota] {
	return rapid.Custom(func(t *rapid.T) engine.Quota {
		permits := rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 100)).Draw(t, "permits")
		return engine.Quota{
			Permits: permits,
			Per:     time.Duration(rapid.IntRange(20, 3000).Draw(t, "per")) * scale,
			Burst:   rapid.SampledFrom([]int{0, 0, min(2, permits), max(1, permits/4)}).Draw(t, "burst"),
		}
	})
}

// genLimit has Pers of 20 to 3000 scales, and some that are longer.
func genLimit(scale time.Duration, mostUnits int) *rapid.Generator[*limit] {
	return rapid.Custom(func(t *rapid.T) *limit {
		l := &limit{quotas: rapid.SliceOfN(genQuota(scale), 1, 3).Draw(t, "quotas")}
		for _, u := range []string{"output", "tokens"}[:rapid.IntRange(0, mostUnits).Draw(t, "units")] {
			l.units = append(l.units, engine.Unit{Name: u, Quotas: rapid.SliceOfN(genQuota(scale), 1, 2).Draw(t, u)})
		}
		if rapid.Bool().Draw(t, "guarded") {
			l.guard = scale
		}
		return l
	})
}

// take is the amounts of n[u] of each unit u.
func (l *limit) take(n []int) fairlimit.Amounts {
	all := fairlimit.Amounts{"": n[0]}
	for i, u := range l.units {
		all[u.Name] = n[i+1]
	}
	return all
}

// amounts are those of a turn of n[u] of each unit u.
func (l *limit) amounts(n []int) engine.Amounts {
	all := map[string]int{}
	for i, u := range l.units {
		all[u.Name] = n[i+1]
	}
	return engine.AmountsOf(all)
}

// draw is how much of each unit a request takes.
func (l *limit) draw(t *rapid.T) []int {
	var n []int
	for _, most := range l.most() {
		n = append(n, rapid.OneOf(rapid.Just(1), rapid.IntRange(0, most)).Draw(t, "n"))
	}
	if n[0] == 0 && l.amounts(n) == "" {
		n[0] = 1
	}
	return n
}

func genMaxWait(l *limit) *rapid.Generator[time.Duration] {
	return rapid.OneOf(rapid.Just(engine.Forever), rapid.Just(engine.Forever), rapid.Just(time.Duration(0)),
		rapid.Map(rapid.Int64Range(0, 2*l.span()), micros))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
