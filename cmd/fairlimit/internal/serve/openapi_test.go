package serve

import (
	"encoding/json"
	"errors"
	"fmt"
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
	if !slices.ContainsFunc(kinds, func(kind any) bool { return isA(value, kind) }) {
		return fmt.Errorf("%v is none of %v", value, kinds)
	}
	var errs []error
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			errs = append(errs, d.fits(item, d.at(schema, "items")))
		}
	case map[string]any:
		properties := d.at(schema, "properties")
		for key, v := range value {
			if property, known := properties[key].(map[string]any); known {
				errs = append(errs, d.fits(v, property))
			} else if properties != nil {
				errs = append(errs, fmt.Errorf("%s is not documented", key))
			}
		}
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, has := value[key.(string)]; !has {
				errs = append(errs, fmt.Errorf("%s is missing", key))
			}
		}
	}
	return errors.Join(errs...)
}

func isA(value, kind any) bool {
	switch value := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case float64:
		return kind == "number" || kind == "integer" && value == float64(int64(value))
	}
	return kind == "object"
}
