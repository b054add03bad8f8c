package picture

import "image/color"

// ink is what text, axes and the line are drawn in. It stands for the colour of
// the page's own text: see Drawing.
var ink = color.NRGBA{R: 0x01, G: 0x02, B: 0x03, A: 0xff}

const inkInSVG = "#010203"

// passed is what the part of a wait is drawn in that somebody else should have
// waited. No hue is near it.
var passed = color.NRGBA{R: 0xe5, G: 0x1c, B: 0x38, A: 0xff}

// hues tell clients apart on white and on black, and for those who do not see
// red and green apart.
var hues = []color.NRGBA{
	{0x2f, 0x7f, 0xd1, 0xff},
	{0xd9, 0xa4, 0x04, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0x8c, 0x6b, 0xd1, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x9a, 0x8f, 0x30, 0xff},
	{0x7c, 0x8a, 0x99, 0xff},
	{0x5b, 0xb8, 0x4c, 0xff},
}

// colourOf is the client's, in all pictures. There are fewer colours than there
// may be clients.
func colourOf(client int) color.NRGBA { return hues[client%len(hues)] }
