package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// document is the OpenAPI document, as far as the tests go by it. What is a
// reference is looked up by [document.at].
type document map[string]any

func openAPI(t testing.TB) document {
	t.Helper()
	var d document
	require.NoError(t, json.Unmarshal(openAPIText, &d))
	return d
}

// at follows keys and references.
func (d document) at(from any, keys ...string) map[string]any {
	found, _ := from.(map[string]any)
	for i := -1; i < len(keys); i++ {
		if i >= 0 {
			found, _ = found[keys[i]].(map[string]any)
		}
		if to, isRef := found["$ref"].(string); isRef {
			found = d.at(map[string]any(d), strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
		}
	}
	return found
}

func (d document) operation(method, path string) map[string]any {
	return d.at(map[string]any(d), "paths", strings.TrimSuffix(path, "{$}"), strings.ToLower(method))
}

func TestTheDocumentNamesEveryRouteAndParameter(t *testing.T) {
	d := openAPI(t)
	documented := 0
	for _, path := range d.at(map[string]any(d), "paths") {
		for method := range path.(map[string]any) {
			if method != "parameters" {
				documented++
			}
		}
	}
	require.Equal(t, len(routes), documented)
	for _, route := range routes {
		o := d.operation(route.method, route.path)
		require.NotNil(t, o, route.path)
		var params []string
		list, _ := o["parameters"].([]any)
		for _, p := range list {
			params = append(params, d.at(p)["name"].(string))
		}
		want := strings.Fields(route.params)
		if route.kind == withUnits {
			want = append(want, "units") // exploded: each is a parameter of its own
		}
		require.ElementsMatch(t, want, params, route.path)
		require.Equal(t, route.kind == open, o["security"] != nil, route.path)
	}
}

// check holds an answer against the document: its status has to be there, and
// the object has to be as its schema says.
func (s *served) check(method, path string, got reply) {
	s.t.Helper()
	i := slices.IndexFunc(routes, func(r route) bool { return r.method == method && matches(r.path, path) })
	if i < 0 || got.status == 431 {
		return // ServeMux says so
	}
	d := openAPI(s.t)
	response := d.at(d.operation(method, routes[i].path), "responses", fmt.Sprint(got.status))
	require.NotNil(s.t, response, "%s %s: %d", method, path, got.status)
	if schema := d.at(response, "content", "application/json", "schema"); schema != nil {
		require.NoError(s.t, d.fits(got.json, schema), "%s %s: %d", method, path, got.status)
	}
}

func matches(pattern, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	want, got := strings.Split(strings.TrimSuffix(pattern, "{$}"), "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

// fits is as much of JSON Schema as the document uses.
func (d document) fits(value any, schema map[string]any) error {
	schema = d.at(schema)
	kinds, many := schema["type"].([]any)
	if !many {
		kinds = []any{schema["type"]}
	}
	if kind := kindOf(value); !slices.Contains(kinds, any(kind)) &&
		(kind != "integer" || !slices.Contains(kinds, any("number"))) {
		return fmt.Errorf("%v is a %s, want %v", value, kind, kinds)
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			if err := d.fits(item, d.at(schema, "items")); err != nil {
				return err
			}
		}
	case map[string]any:
		properties := d.at(schema, "properties")
		for _, key := range slices.Sorted(maps.Keys(value)) {
			property, known := properties[key].(map[string]any)
			if !known && properties != nil {
				return fmt.Errorf("%s is not documented", key)
			} else if known {
				if err := d.fits(value[key], property); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			}
		}
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, has := value[key.(string)]; !has {
				return fmt.Errorf("%s is missing", key)
			}
		}
	}
	return nil
}

func kindOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if value == float64(int64(value)) {
			return "integer"
		}
		return "number"
	}
	return "object"
}
