package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// document is the OpenAPI document.
type document map[string]any

func openAPI(t testing.TB) (d document) {
	t.Helper()
	require.NoError(t, json.Unmarshal(openAPIText, &d))
	return d
}

// escape is a word as a JSON pointer has it.
func escape(word string) string { return strings.ReplaceAll(word, "/", "~1") }

// at is what a JSON pointer leads to, by way of references, and where that stands.
func (d document) at(pointer string) (found any, where string) {
	found = map[string]any(d)
	for _, word := range strings.Split(pointer, "/")[1:] {
		switch parent := found.(type) {
		case map[string]any:
			found = parent[strings.ReplaceAll(word, "~1", "/")]
		case []any:
			found = parent[word[0]-'0']
		}
		where += "/" + word
		object, _ := found.(map[string]any)
		if to, isReference := object["$ref"].(string); isReference {
			found, where = d.at(to[1:])
		}
	}
	return found, where
}

func operation(r route) string {
	return "/paths/" + escape(strings.TrimSuffix(r.path, "{$}")) + "/" + strings.ToLower(r.method)
}

func TestTheDocumentNamesEveryRouteAndParameter(t *testing.T) {
	d := openAPI(t)
	documented := 0
	for _, path := range d["paths"].(map[string]any) {
		methods := path.(map[string]any)
		delete(methods, "parameters")
		documented += len(methods)
	}
	require.Equal(t, len(routes), documented)
	for _, route := range routes {
		found, _ := d.at(operation(route))
		require.NotNil(t, found, route.path)
		o := found.(map[string]any)
		list, _ := o["parameters"].([]any)
		var params []string
		for i := range list {
			p, _ := d.at(fmt.Sprintf("%s/parameters/%d", operation(route), i))
			params = append(params, p.(map[string]any)["name"].(string))
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
	response := fmt.Sprintf("%s/responses/%d", operation(routes[i]), got.status)
	found, _ := d.at(response)
	require.NotNil(s.t, found, "%s %s: %d", method, path, got.status)
	if schema, where := d.at(response + "/content/application~1json/schema"); schema != nil {
		require.NoError(s.t, d.schema(s.t, where).Validate(got.json), response)
	}
}

func (d document) schema(t testing.TB, pointer string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("openapi.json", map[string]any(d)))
	schema, err := c.Compile("openapi.json#" + pointer)
	require.NoError(t, err)
	return schema
}

func matches(pattern, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	want, got := strings.Split(strings.TrimSuffix(pattern, "{$}"), "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}
