package picture

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Drawing is a picture as SVG. What is drawn in ink takes the colour of what
// surrounds it.
type Drawing struct {
	Title string

	width, height vg.Length
	shapes        string
}

// fonts are asked for in this order; all are as wide as the first, by whose
// measures the text is laid out.
const fonts = "'Liberation Sans',Arial,Helvetica,sans-serif"

func render(p *plot.Plot, scope, key string, height vg.Length) (Drawing, error) {
	title := strings.ReplaceAll(p.Title.Text, "\n", ", ") + "; " + scope + "; " + key
	d := Drawing{Title: title, width: width, height: height}
	canvas := vgsvg.New(d.width, d.height)
	compose(draw.New(canvas), p, scope, key)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return Drawing{}, fmt.Errorf("a picture cannot be drawn: %w", err)
	}
	_, inner, opened := strings.Cut(out.String(), "<g ")
	inner, _, closed := strings.Cut(inner, "</svg>")
	if !opened || !closed {
		return Drawing{}, fmt.Errorf("a picture came out as no SVG that is known here")
	}
	d.shapes = strings.NewReplacer(inkInSVG, "currentColor", "font-family:Liberation Sans", "font-family:"+fonts,
		"font-variant:normal;", "", "font-weight:normal;", "", "font-style:normal;", "").Replace("<g " + inner)
	return d, nil
}

// Inline is for a page, whose text colour it takes.
func (d Drawing) Inline() string { return d.svg("") }

// File stands on its own: white or, for those who like it so, black paper.
func (d Drawing) File() string {
	return d.svg(`<style>svg{color:#1f2328}.paper{fill:#fff}
@media (prefers-color-scheme:dark){svg{color:#e6edf3}.paper{fill:#0d1117}}</style>
<rect class="paper" width="100%" height="100%"/>
`)
}

func (d Drawing) svg(paper string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "+
		"viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>%s</title>\n%s%s</svg>\n",
		d.width, d.height, d.width, d.height, html.EscapeString(d.Title), paper, d.shapes)
}
