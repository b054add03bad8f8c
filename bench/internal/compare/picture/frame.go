package picture

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of text, and of pictures.
const (
	large = font.Length(14.5)
	small = font.Length(12.5)

	width = vg.Length(400)
	tall  = vg.Length(400)
	low   = vg.Length(260)
)

// newFrame is a plot with axes and titles, all in ink, and no background.
func newFrame(title, caption string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	if caption != "" {
		p.Title.Text += "\n" + caption
	}
	p.Title.Padding = 8
	write(&p.Title.TextStyle, large)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		write(&a.Label.TextStyle, small)
		write(&a.Tick.Label, small)
		a.LineStyle.Color, a.Tick.LineStyle.Color = ink, ink
		a.Label.Padding = 3
	}
	return p
}

func write(style *text.Style, size font.Length) {
	style.Color = ink
	style.Font.Variant, style.Font.Size = "Sans", size
}

// compose draws the plot and, below it, what it shows, in two lines.
func compose(c draw.Canvas, p *plot.Plot, scope, key string) {
	style := p.X.Label.TextStyle
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	c.FillText(style, vg.Point{X: c.Min.X + 6, Y: c.Min.Y + 21}, scope)
	c.FillText(style, vg.Point{X: c.Min.X + 6, Y: c.Min.Y + 5}, key)
	p.Draw(draw.Crop(c, 4, -14, 42, -4))
}
