package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// documented is what the OpenAPI document has in an object of objects, nil if
// that is nothing.
func documented(t testing.TB, keys ...string) (found any) {
	require.NoError(t, json.Unmarshal(openAPIText, &found))
	for _, key := range keys {
		object, _ := found.(map[string]any)
		found = object[key]
	}
	return found
}

// where is a route's path in the document, and its method there.
func (r route) where() (path, method string) {
	return strings.TrimSuffix(r.path, "{$}"), strings.ToLower(r.method)
}

func TestTheDocumentNamesEveryRouteAndParameter(t *testing.T) {
	all := 0
	for _, item := range documented(t, "paths").(map[string]any) {
		methods := item.(map[string]any)
		delete(methods, "parameters") // of the path
		all += len(methods)
	}
	require.Equal(t, len(routes), all)
	for _, route := range routes {
		at, method := route.where()
		require.NotNil(t, documented(t, "paths", at, method), route.path)
		list, _ := documented(t, "paths", at, method, "parameters").([]any)
		var params []string
		for _, p := range list {
			name, _ := p.(map[string]any)["name"].(string)
			ref, _ := p.(map[string]any)["$ref"].(string) // ends with the name
			params = append(params, cmp.Or(name, strings.ToLower(path.Base(ref))))
		}
		want := strings.Fields(route.params)
		if route.kind == withUnits {
			want = append(want, "units") // exploded: each is a parameter of its own
		}
		require.ElementsMatch(t, want, params, route.path)
		require.Equal(t, route.kind == open, documented(t, "paths", at, method, "security") != nil, route.path)
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
	where, method := routes[i].where()
	status := fmt.Sprint(got.status)
	require.NotNil(s.t, documented(s.t, "paths", where, method, "responses", status), "%s %s: %s", method, path, status)
	schema := "/components/schemas/Error"
	if got.status == 200 {
		schema = "/paths/" + strings.ReplaceAll(where, "/", "~1") + "/" + method +
			"/responses/200/content/application~1json/schema"
	} else if got.json["refused"] != nil {
		schema = "/components/schemas/Refused"
	}
	if got.header.Get("Content-Type") == "application/json" && where != "/openapi.json" {
		fits(s.t, schema, got.json)
	}
}

// fits fails the test for an object that is not as a schema of the document says.
func fits(t testing.TB, schema string, object map[string]any) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPIText))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("openapi.json", document))
	require.NoError(t, c.MustCompile("openapi.json#"+schema).Validate(object))
}

func matches(pattern, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	want, got := strings.Split(strings.TrimSuffix(pattern, "{$}"), "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}
