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

// operation is what the OpenAPI document says of a route.
type operation struct {
	Parameters []struct {
		Name string
		Ref  string `json:"$ref"` // ends with the name
	}
	Responses map[string]any
	Security  any
}

// operations are what the document says of each path, by method.
func operations(t testing.TB) map[string]map[string]operation {
	t.Helper()
	var document struct {
		Paths map[string]struct{ Get, Post, Delete *operation }
	}
	require.NoError(t, json.Unmarshal(openAPIText, &document))
	all := map[string]map[string]operation{}
	for path, p := range document.Paths {
		all[path] = map[string]operation{}
		for method, o := range map[string]*operation{"GET": p.Get, "POST": p.Post, "DELETE": p.Delete} {
			if o != nil {
				all[path][method] = *o
			}
		}
	}
	return all
}

func TestTheDocumentNamesEveryRouteAndParameter(t *testing.T) {
	all, documented := operations(t), 0
	for _, methods := range all {
		documented += len(methods)
	}
	require.Equal(t, len(routes), documented)
	for _, route := range routes {
		o, found := all[strings.TrimSuffix(route.path, "{$}")][route.method]
		require.True(t, found, route.path)
		var params []string
		for _, p := range o.Parameters {
			params = append(params, cmp.Or(p.Name, strings.ToLower(path.Base(p.Ref))))
		}
		want := strings.Fields(route.params)
		if route.kind == withUnits {
			want = append(want, "units") // exploded: each is a parameter of its own
		}
		require.ElementsMatch(t, want, params, route.path)
		require.Equal(t, route.kind == open, o.Security != nil, route.path)
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
	where := strings.TrimSuffix(routes[i].path, "{$}")
	require.Contains(s.t, operations(s.t)[where][method].Responses, fmt.Sprint(got.status), "%s %s", method, path)
	schema := "/components/schemas/Error"
	if got.status == 200 {
		schema = "/paths/" + strings.ReplaceAll(where, "/", "~1") + "/" + strings.ToLower(method) +
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
