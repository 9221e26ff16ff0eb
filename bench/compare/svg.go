package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// point is a figure at a size.
type point struct{ x, y float64 }

// series is a line of a chart.
type series struct {
	name   string
	points []point
}

// The plot lies in the middle of the picture. Left of it are the labels of the axis,
// right of it the names of the lines, each at the end of its line.
const (
	width, height             = 760.0, 440.0
	left, right, top, bottom  = 92.0, 590.0, 76.0, 384.0
	lineGap                   = 20.0 // of two names
	fontFamily                = "Helvetica, Arial, 'Liberation Sans', sans-serif"
	ink, faintInk, gridColour = "#1a1a1a", "#555555", "#dddddd"
)

// colours are Okabe and Ito's, which people who do not see all colours can tell apart;
// the first is stele's. Lines differ in their markers as well.
var colours = []string{"#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#808080", "#000000"}

// svg draws lines over logarithmic axes.
func (c chart) svg(lines []series) string {
	x, y := axis{left, right, nil}, axis{bottom, top, nil}
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.points {
			low, high = min(low, p.y), max(high, p.y)
		}
	}
	for _, n := range c.sizes {
		x.ticks = append(x.ticks, float64(n))
	}
	y.ticks = logTicks(low, high)

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g"`+
		` font-family="%s" font-size="14" fill="%s" role="img">`+"\n",
		width, height, width, height, fontFamily, ink)
	fmt.Fprintf(&b, "<title>%s: %s</title>\n<desc>%s</desc>\n", escape(c.title), escape(c.better), escape(c.figures(lines)))
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#ffffff"/>`+"\n", width, height)
	text(&b, left, 28, "start", `font-size="18" font-weight="bold"`, c.title)
	text(&b, left, 50, "start", fmt.Sprintf(`fill="%s"`, faintInk), c.better+"; both axes are logarithmic")
	for _, v := range y.ticks {
		at := y.at(v)
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="%s"/>`+"\n", left, at, right, gridColour)
		text(&b, left-10, at+5, "end", "", c.unit(v))
	}
	for _, v := range x.ticks {
		at := x.at(v)
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`+"\n", at, bottom, bottom+6, faintInk)
		text(&b, at, bottom+24, "middle", "", thousands(v))
	}
	fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="%s"/>`+"\n", left, bottom, right, faintInk)
	text(&b, (left+right)/2, bottom+46, "middle", fmt.Sprintf(`fill="%s"`, faintInk), c.x)

	names := nameplaces(lines, y)
	for i, l := range slices.Backward(lines) { // the first is on top
		c.line(&b, l, i, x, y, names[i])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// line draws one line with its markers and its name.
func (c chart) line(b *strings.Builder, l series, i int, x, y axis, name float64) {
	colour, wide := colours[i%len(colours)], 2.0
	if i == 0 {
		wide = 4
	}
	var path strings.Builder
	for j, p := range l.points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], x.at(p.x), y.at(p.y))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`+"\n", &path, colour, wide)
	for _, p := range l.points {
		fmt.Fprintf(b, `<path d="%s" fill="%s"/>`+"\n", marker(i, x.at(p.x), y.at(p.y)), colour)
	}
	end := l.points[len(l.points)-1]
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" fill="none"/>`+"\n", x.at(end.x)+8, y.at(end.y), right+18, name, colour)
	fmt.Fprintf(b, `<path d="%s" fill="%s"/>`+"\n", marker(i, right+24, name), colour)
	weight := ""
	if i == 0 {
		weight = `font-weight="bold"`
	}
	text(b, right+34, name+5, "start", weight, l.name)
}

// nameplaces are the heights of the names: those of the lines' ends, moved apart.
func nameplaces(lines []series, y axis) []float64 {
	order := make([]int, len(lines))
	places := make([]float64, len(lines))
	for i, l := range lines {
		order[i], places[i] = i, y.at(l.points[len(l.points)-1].y)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	for range 100 { // each turn moves neighbours that are too near half of what is missing
		for j := 1; j < len(order); j++ {
			a, b := order[j-1], order[j]
			if missing := lineGap - (places[b] - places[a]); missing > 0 {
				places[a], places[b] = places[a]-missing/2, places[b]+missing/2
			}
		}
	}
	return places
}

// axis places values between two ends by their logarithms.
type axis struct {
	from, to float64
	ticks    []float64
}

func (a axis) at(v float64) float64 {
	low, high := math.Log(a.ticks[0]), math.Log(a.ticks[len(a.ticks)-1])
	return a.from + (a.to-a.from)*(math.Log(v)-low)/(high-low)
}

// logTicks are round numbers from at most low to at least high: powers of ten where that
// makes four or more, else 1, 2 and 5 times such.
func logTicks(low, high float64) []float64 {
	steps := []float64{1}
	if math.Log10(high/low) < 2.5 {
		steps = []float64{1, 2, 5}
	}
	var ticks []float64
	for e := math.Floor(math.Log10(low)); ; e++ {
		for _, s := range steps {
			v := s * math.Pow(10, e)
			if len(ticks) > 0 && ticks[0] <= low && v*(1-1e-9) <= low {
				ticks = ticks[:0]
			}
			if ticks = append(ticks, v); v >= high && len(ticks) > 1 {
				return ticks
			}
		}
	}
}

// marker is the outline of the mark of a line: a disc, square, diamond, or triangle.
func marker(i int, x, y float64) string {
	const r = 5.0
	switch i % 5 {
	case 0:
		return fmt.Sprintf("M%.1f %.1fa%g %g 0 1 0 %g 0a%g %g 0 1 0 %g 0z", x-r, y, r, r, 2*r, r, r, -2*r)
	case 1:
		return fmt.Sprintf("M%.1f %.1fh%gv%gh%gz", x-4, y-4, 8.0, 8.0, -8.0)
	case 2:
		return fmt.Sprintf("M%.1f %.1fl%g %gl%g %gl%g %gz", x, y-6, 6.0, 6.0, -6.0, 6.0, -6.0, -6.0)
	case 3:
		return fmt.Sprintf("M%.1f %.1fl%g %gh%gz", x, y-6, 6.0, 10.0, -12.0)
	default:
		return fmt.Sprintf("M%.1f %.1fl%g %gh%gz", x, y+6, 6.0, -10.0, -12.0)
	}
}

// figures are what a chart shows, in words.
func (c chart) figures(lines []series) string {
	var all []string
	for _, l := range lines {
		var each []string
		for _, p := range l.points {
			each = append(each, fmt.Sprintf("%s at %s", c.unit(p.y), thousands(p.x)))
		}
		all = append(all, l.name+" "+strings.Join(each, ", "))
	}
	return strings.Join(all, "; ") + " " + c.x
}

func text(b *strings.Builder, x, y float64, anchor, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, attributes, escape(s))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}

// thousands prints a number with commas and at most three digits that count.
func thousands(v float64) string {
	if v < 1000 {
		return number(v)
	}
	round := math.Pow(10, math.Floor(math.Log10(v))-2)
	n := fmt.Sprintf("%.0f", math.Round(v/round)*round)
	for i := len(n) - 3; i > 0; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// inBytes and inTime print a number of bytes, and of milliseconds.
func inBytes(v float64) string {
	return scaled(v, []string{"B", "KB", "MB", "GB"})
}

func inTime(v float64) string {
	return scaled(v*1000, []string{"µs", "ms", "s"})
}

func scaled(v float64, units []string) string {
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return number(v) + " " + units[i]
}
