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
	UID           string
	Title         string
	SchemaVersion int
	Time          struct{ From, To string }
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any // a string, or an object with a query
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Title, Type string
	Datasource  source
	Description string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

type source struct{ Type, UID string }

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
	assert.NotEmpty(t, d.Title)
	assert.GreaterOrEqual(t, d.SchemaVersion, 36)
	assert.Equal(t, "now", d.Time.To)
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	assert.Equal(t, map[string]string{"datasource": "datasource", "limiter": "query"}, variables)

	ids, cells := map[int]bool{}, map[[2]int]string{}
	require.NotEmpty(t, d.Panels)
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "%s: id %d is taken", p.Title, p.ID)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Description, p.Title)
		assert.Contains(t, []string{"timeseries", "stat"}, p.Type, p.Title)
		assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		ours := source{"prometheus", "${datasource}"}
		assert.Equal(t, ours, p.Datasource, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		var refs []string
		for _, target := range p.Targets {
			assert.Equal(t, ours, target.Datasource, p.Title)
			assert.NotEmpty(t, target.LegendFormat, p.Title)
			assert.NotContains(t, refs, target.RefID, p.Title)
			refs = append(refs, target.RefID)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Less(t, at[0], 24, "%s is too far right", p.Title)
				assert.Empty(t, cells[at], "%s lies over another", p.Title)
				cells[at] = p.Title
			}
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
