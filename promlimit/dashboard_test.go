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

// query is a metric, with what selects its series.
var query = regexp.MustCompile(`(fairlimit_\w+)\{([^}]*)\}`)

// by is what an expression sums by.
var by = regexp.MustCompile(`by \(([^)]*)\)`)

// The dashboard asks only for metrics and labels that exist, of the limiters that
// are chosen, and shows every metric.
func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	assert.NotEmpty(t, d.UID)
	names, ids := families(t), map[int]bool{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "%s: id %d is taken", p.Title, p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			assert.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), target.Expr)
			asked := query.FindAllStringSubmatch(target.Expr, -1)
			assert.Len(t, asked, len(metricName.FindAllString(target.Expr, -1)), "not all select: %s", target.Expr)
			for _, q := range asked {
				assert.Contains(t, q[2], `limiter=~"$limiter"`, target.Expr)
				assert.Subset(t, names[q[1]], labels(target.Expr, q[2]), target.Expr)
			}
		}
	}
	shown := metricName.FindAllString(string(text), -1)
	for _, name := range shown {
		assert.Contains(t, names, name)
	}
	for name := range names {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		is := slices.ContainsFunc(shown, func(s string) bool { return strings.HasPrefix(s, base) })
		assert.True(t, is, "no panel shows %s", name)
	}
}

// labels are those that a selector has, and those by which its expression sums.
func labels(expr, selector string) (all []string) {
	for pair := range strings.SplitSeq(selector, ",") {
		name, _, _ := strings.Cut(pair, "=")
		all = append(all, strings.TrimSuffix(name, "!"))
	}
	for _, names := range by.FindAllStringSubmatch(expr, -1) {
		all = append(all, strings.Split(names[1], ", ")...)
	}
	return all
}
