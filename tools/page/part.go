package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// source is where links lead that the page has no part for.
const source = "https://github.com/fairlimit/fairlimit/blob/main/"

// A part of the page is one Markdown file.
type part struct {
	ID    string // begins the ids of its headings
	Name  string // in the menu
	File  string // its path from the root
	Until string // the first heading that the page leaves out, or empty

	Sections []section // of the menu
	HTML     template.HTML

	ids   []string // of its headings
	links []string // within the page, without #
}

type section struct{ ID, Name string }

// render turns the part's Markdown into HTML.
func (p *part) render(parts []*part) error {
	markdown, err := os.ReadFile(path.Join(root, p.File))
	if err != nil {
		return err
	}
	if p.Until != "" {
		before, _, found := bytes.Cut(markdown, []byte("\n## "+p.Until))
		if !found {
			return fmt.Errorf("no heading %q", p.Until)
		}
		markdown = before
	}
	// Unsafe lets pictures be data. The Markdown is our own.
	converter := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	document := converter.Parser().Parse(text.NewReader(markdown))
	err = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.name(node, markdown)
		case *ast.Link:
			node.Destination = []byte(p.target(string(node.Destination), parts))
		case *ast.Image:
			return ast.WalkContinue, p.embed(node)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var rendered bytes.Buffer
	if err := converter.Renderer().Render(&rendered, markdown, document); err != nil {
		return err
	}
	p.HTML = template.HTML(rendered.String())
	return nil
}

// name gives a heading its id, and the menu its section.
func (p *part) name(heading *ast.Heading, markdown []byte) {
	var name strings.Builder
	for child := heading.FirstChild(); child != nil; child = child.NextSibling() {
		name.Write(child.(*ast.Text).Segment.Value(markdown))
	}
	id := p.ID
	if heading.Level > 1 {
		id += "-" + anchor(name.String())
	}
	if heading.Level == 2 {
		p.Sections = append(p.Sections, section{ID: id, Name: name.String()})
	}
	heading.SetAttributeString("id", []byte(id))
	p.ids = append(p.ids, id)
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// target is where a link of the Markdown leads on the page.
func (p *part) target(link string, parts []*part) string {
	if strings.Contains(link, "://") {
		return link
	}
	file, fragment, _ := strings.Cut(link, "#")
	if file = path.Join(path.Dir(p.File), file); link[0] == '#' {
		file = p.File
	}
	i := slices.IndexFunc(parts, func(other *part) bool { return other.File == file })
	switch {
	case i < 0 && fragment == "":
		return source + file
	case i < 0:
		return source + file + "#" + fragment
	}
	id := parts[i].ID
	if fragment != "" {
		id += "-" + fragment
	}
	p.links = append(p.links, id)
	return "#" + id
}

// embed puts a picture into the page.
func (p *part) embed(image *ast.Image) error {
	file, err := url.PathUnescape(string(image.Destination))
	if err != nil {
		return err
	}
	picture, err := os.ReadFile(path.Join(root, path.Dir(p.File), file))
	if err != nil {
		return err
	}
	image.Destination = []byte("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(picture))
	return nil
}

// checkLinks reports a link to a heading that the page does not have.
func checkLinks(parts []*part) error {
	var ids []string
	for _, p := range parts {
		ids = append(ids, p.ids...)
	}
	for _, p := range parts {
		for _, link := range p.links {
			if !slices.Contains(ids, link) {
				return fmt.Errorf("%s links to a heading that does not exist: %s", p.File, link)
			}
		}
	}
	return nil
}
