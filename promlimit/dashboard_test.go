package promlimit_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what Grafana needs of one.
type dashboard struct {
	Panels []struct {
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
	names := families(t)
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			asked := query.FindAllStringSubmatch(target.Expr, -1)
			assert.Len(t, asked, len(metricName.FindAllString(target.Expr, -1)), "not all select: %s", target.Expr)
			for _, q := range asked {
				assert.Contains(t, q[2], `limiter=~"$limiter"`, target.Expr)
				assert.Subset(t, names[q[1]], labels(target.Expr, q[2]), target.Expr)
			}
		}
	}
	lists(t, string(text), names)
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
