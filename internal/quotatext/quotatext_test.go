package quotatext

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlimit/fairlimit/engine"
)

func TestQuotasAreWrittenAsAPersonWould(t *testing.T) {
	t.Parallel()
	for text, q := range map[string]engine.Quota{
		"20/1s":           {Permits: 20, Per: time.Second},
		"100/2m burst 10": {Permits: 100, Per: 2 * time.Minute, Burst: 10},
		"5/1h":            {Permits: 5, Per: time.Hour},
		"5/1h30m":         {Permits: 5, Per: 90 * time.Minute},
		"5/1h0m5s":        {Permits: 5, Per: time.Hour + 5*time.Second},
		"5/10s":           {Permits: 5, Per: 10 * time.Second},
		"5/10m":           {Permits: 5, Per: 10 * time.Minute},
		"5/1.5s burst 5":  {Permits: 5, Per: 1500 * time.Millisecond, Burst: 5},
		"1/240h":          {Permits: 1, Per: 240 * time.Hour},
		"1/1µs":           {Permits: 1, Per: time.Microsecond},
	} {
		require.Equal(t, text, Format(q))
		read, err := ParseOne(text)
		require.NoError(t, err)
		require.Equal(t, q, read)
	}
	quotas, err := Parse(" 20/1000ms\n100/120s  burst 10\t5/1h ")
	require.NoError(t, err)
	require.Equal(t, "20/1s 100/2m burst 10 5/1h", FormatAll(quotas))
	for text, want := range map[string]string{
		"10/s": "10/1s", "10 / 1s": "10/1s", "10/min": "10/1m", "10/m": "10/1m", "10 /h": "10/1h",
		"10/ hour burst 3 5/day": "10/1h burst 3 5/24h", "1/ms": "1/1ms", "3/second": "3/1s",
		"10/10min": "10/10m", "10/1.5hour": "10/1h30m", "1000/7d": "1000/168h", "5/90sec": "5/1m30s",
	} {
		quotas, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, FormatAll(quotas), text)
	}
	quotas, err = Parse(" \n")
	require.NoError(t, err)
	require.Empty(t, quotas, "none are stored")
}

func TestATextThatIsNoQuotaIsAnError(t *testing.T) {
	t.Parallel()
	for text, about := range map[string]string{
		"":                        "0 quotas",
		"20/1s 5/1m":              "2 quotas",
		"20":                      `"20" has no duration: want <permits>/<duration>`,
		"20/":                     "has no duration",
		"20/1":                    `duration of "20/1": the unit is missing, as in 1ms, 1s or 1m`,
		"20/min 5":                `"5" has no duration`,
		"20/50ns":                 "50ns is less than a microsecond",
		"20/1s/2":                 "duration",
		"/1s":                     "no number",
		"x/1s":                    "no number",
		"-3/1s":                   "no number",
		"0/1s":                    "0 is too few: want <permits>/<duration>",
		"99999999999999999999/1s": "too many",
		"20/0s":                   "more than 0",
		"20/-1s":                  "more than 0",
		"20/-60":                  "the unit is missing, as in -60ms",
		"20/h30m":                 "duration",
		"20/200000000000d":        "duration",
		"20/1s burst":             "burst",
		"20/1s burst 0":           "0 is too few: want <permits>/<duration>",
		"20/1s burst x":           "no number",
		"20/1s burst 21":          "more than its permits",
		"20/1s burst 3 burst 4":   "no number",
		"20/10":                   "duration",
		"20/mins":                 "duration",
		"20/ms/s":                 "duration",
		"20 1s":                   "duration",
		"20/ ":                    "duration",
		"burst 3":                 "no number",
		"5/1s burs 2":             `"burs" is no number: the only word in a quota is "burst"`,
		"60/1m tokens 20000/1m":   `";" units, as in "60/1m 900/1h; tokens 20000/1m"`,
		"60/1m, tokens 20000/1m":  `a comma in "60/1m, tokens 20000/1m": spaces separate quotas, and ";" units`,
		"60/1m,900/1h":            "a comma",
	} {
		_, err := ParseOne(text)
		require.ErrorContains(t, err, about, text)
	}
}

// FuzzQuotas writes quotas and reads them again, and reads any text.
//
//	go test ./internal/quotatext -fuzz FuzzQuotas
func FuzzQuotas(f *testing.F) {
	f.Add("20/1s 100/2m burst 10", 3, int64(time.Hour), 2)
	f.Add("x", math.MaxInt, int64(math.MaxInt64), 0)
	f.Fuzz(func(t *testing.T, text string, permits int, per int64, burst int) {
		if quotas, err := Parse(text); err == nil {
			again, err := Parse(FormatAll(quotas))
			require.NoError(t, err)
			require.Equal(t, quotas, again)
		}
		if permits < 1 || per < int64(time.Microsecond) || burst < 0 || burst > permits {
			return
		}
		q := engine.Quota{Permits: permits, Per: time.Duration(per), Burst: burst}
		again, err := ParseOne(Format(q))
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}
