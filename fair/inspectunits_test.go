package fair

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestInspectTellsUnits(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, at := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"), amount(1, "tokens=60"), amount(1, ""))
		s := inspected(t, f)
		require.Len(t, s.Units, 1)
		u := s.Units[0]
		require.Equal(t, int64(60), u.Granted(0, time.Hour))
		u.line = nil
		require.Equal(t, Unit{
			Name: "tokens", Windows: []Window{{100, time.Minute, 60}},
			Next: time.Minute, Backlog: 60, Sequence: 120,
		}, u)
		at(40 * time.Second)
		require.Equal(t, 20*time.Second, inspected(t, f).Units[0].Next)
		at(2 * time.Minute)
		u = inspected(t, f).Units[0]
		require.Equal(t, []Window{{100, time.Minute, 0}}, u.Windows)
		require.Equal(t, int64(100), u.Available)
		require.NoError(t, f.Reset(t.Context()))
		for _, u := range inspected(t, f).Units {
			require.Zero(t, u.Windows[0].Held)
		}
	})
}

func TestInspectTellsUnitsOfThisQueueOnly(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"))
		require.NoError(t, w.rdb.Del(t.Context(), f.key).Err())
		require.Empty(t, inspected(t, f).Units)
		other := f.joins(t, f.quotas[0])
		queued(t, other, 1, 1)
		require.Empty(t, inspected(t, f).Units, "those of a queue that is over")
	})
}

func TestInspectFailsAtUnitsThatCannotBeRead(t *testing.T) {
	inBothWorlds(t, func(t *testing.T, w world) {
		f, _ := w.tokensOf(t)
		take(t, f, amount(1, "tokens=60"), amount(1, "tokens=60"))
		text := w.rdb.Get(t.Context(), f.unitsKey()).Val()
		for _, damaged := range []string{
			"plenty", text[:40], text[:len(text)-3], strings.Replace(text, "100/", "0/", 1),
			strings.Replace(text, " 120 ", " x20 ", 1), strings.Replace(text, "units1", "units2", 1),
		} {
			require.NoError(t, w.rdb.Set(t.Context(), f.unitsKey(), damaged, time.Hour).Err())
			_, err := f.inspect(t.Context(), inspectScript)
			require.ErrorIs(t, err, engine.ErrState, "%q", damaged)
			require.ErrorContains(t, err, ":units")
		}
		require.NoError(t, w.rdb.Del(t.Context(), f.unitsKey()).Err())
		require.NoError(t, w.rdb.RPush(t.Context(), f.unitsKey(), "plenty").Err())
		_, err := f.inspect(t.Context(), inspectScript)
		require.ErrorIs(t, err, engine.ErrState)
	})
}
