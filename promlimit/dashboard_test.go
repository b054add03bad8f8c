package promlimit_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what Grafana needs of one.
type dashboard struct {
	UID    string
	Panels []struct {
		ID      int
		Title   string
		Targets []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

func readDashboard(t *testing.T) (d dashboard, text string) {
	t.Helper()
	data, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &d))
	return d, string(data)
}

func TestTheDashboardHasWhatGrafanaNeeds(t *testing.T) {
	d, _ := readDashboard(t)
	assert.NotEmpty(t, d.UID)
	ids := map[int]bool{}
	require.NotEmpty(t, d.Panels)
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "%s: id %d is taken", p.Title, p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
		}
	}
}

// query is a metric, with what selects its series.
var query = regexp.MustCompile(`(fairlimit_\w+)\{([^}]*)\}`)

func TestTheDashboardAsksOnlyForMetricsAndLabelsThatExist(t *testing.T) {
	d, text := readDashboard(t)
	names := families(t)
	shown := metricName.FindAllString(text, -1)
	for _, name := range shown {
		assert.Contains(t, names, name)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			assert.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), target.Expr)
			asked := query.FindAllStringSubmatch(target.Expr, -1)
			metrics := metricName.FindAllString(target.Expr, -1)
			assert.Len(t, asked, len(metrics), "not all select a limiter: %s", target.Expr)
			for _, q := range asked {
				assert.Contains(t, q[2], `limiter=~"$limiter"`, target.Expr)
				for _, label := range labels(target.Expr, q[2]) {
					assert.Contains(t, names[q[1]], label, target.Expr)
				}
			}
		}
	}
}

// labels are those that a selector has, and those by which its expression sums.
func labels(expr, selector string) []string {
	var all []string
	for _, pair := range strings.Split(selector, ",") {
		name, _, _ := strings.Cut(pair, "=")
		all = append(all, strings.TrimSuffix(name, "!"))
	}
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		all = append(all, strings.Split(by[1], ", ")...)
	}
	return all
}

func TestTheDashboardShowsEveryMetric(t *testing.T) {
	_, text := readDashboard(t)
	shown := metricName.FindAllString(text, -1)
	for name := range families(t) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		is := slices.ContainsFunc(shown, func(s string) bool { return strings.HasPrefix(s, base) })
		assert.True(t, is, "no panel shows %s", name)
	}
}
