// The program page makes docs/index.html: README, HOW, LIMITS and their
// pictures in one file that needs no other.
//
//	go -C tools run ./page
package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"log"
	"os"
	"path"
)

// root is the folder of the library, seen from that of this module.
const root = ".."

//go:embed page.html
var layout string

func main() {
	parts := []*part{
		{ID: "start", Name: "fairlimit", File: "README.md", Until: "Working on it"},
		{ID: "how", Name: "How it works", File: "docs/HOW.md"},
		{ID: "limits", Name: "Limits", File: "docs/LIMITS.md"},
	}
	for _, p := range parts {
		if err := p.render(parts); err != nil {
			log.Fatalf("%s: %v", p.File, err)
		}
	}
	if err := checkLinks(parts); err != nil {
		log.Fatal(err)
	}
	var page bytes.Buffer
	if err := template.Must(template.New("page").Parse(layout)).Execute(&page, parts); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path.Join(root, "docs/index.html"), page.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
