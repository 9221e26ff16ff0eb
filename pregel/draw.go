package pregel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Drawing is a graph's nodes and edges, for people.
type Drawing struct {
	Nodes []string
	Edges []Edge
}

// Draw lists nodes and edges. Edges of a graph that was not built by package
// graph are those of channels: who writes one is not known, so they begin at
// Start for inputs only.
func (g *Graph) Draw() Drawing {
	d := Drawing{Nodes: g.Nodes(), Edges: slices.Clone(g.opts.Edges)}
	if len(d.Edges) == 0 {
		for _, in := range g.input.Names {
			for _, n := range g.triggers[in] {
				d.Edges = append(d.Edges, Edge{From: Start, To: n})
			}
		}
	}
	for _, end := range []string{Start, End} {
		uses := slices.ContainsFunc(d.Edges, func(e Edge) bool { return e.From == end || e.To == end })
		if uses && !slices.Contains(d.Nodes, end) {
			d.Nodes = append(d.Nodes, end)
		}
	}
	return d
}

var notWord = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// mermaidID is a name as Mermaid accepts it.
func mermaidID(name string) string {
	return notWord.ReplaceAllStringFunc(name, func(s string) string { return fmt.Sprintf("\\%x", s) })
}

// Mermaid draws the graph as LangGraph does: a flowchart in Mermaid's language.
func (g *Graph) Mermaid() string {
	d := g.Draw()
	var b strings.Builder
	b.WriteString("---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n")
	for _, n := range d.Nodes {
		switch n {
		case Start:
			fmt.Fprintf(&b, "\t%s([<p>%s</p>]):::first\n", mermaidID(n), n)
		case End:
			fmt.Fprintf(&b, "\t%s([<p>%s</p>]):::last\n", mermaidID(n), n)
		default:
			fmt.Fprintf(&b, "\t%s(%s)\n", mermaidID(n), n)
		}
	}
	for _, e := range d.Edges {
		arrow := "-->"
		switch {
		case e.Conditional && e.Label != "":
			arrow = fmt.Sprintf("-. &nbsp;%s&nbsp; .->", e.Label)
		case e.Conditional:
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "\t%s %s %s;\n", mermaidID(e.From), arrow, mermaidID(e.To))
	}
	b.WriteString("\tclassDef default fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n")
	return b.String()
}

// DOT draws the graph in the language of Graphviz.
func (g *Graph) DOT() string {
	d := g.Draw()
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n", g.opts.Name)
	for _, n := range d.Nodes {
		shape := "box"
		if n == Start || n == End {
			shape = "oval"
		}
		fmt.Fprintf(&b, "\t%q [shape=%s];\n", n, shape)
	}
	for _, e := range d.Edges {
		var attrs []string
		if e.Conditional {
			attrs = append(attrs, "style=dashed")
		}
		if e.Label != "" {
			attrs = append(attrs, fmt.Sprintf("label=%q", e.Label))
		}
		suffix := ""
		if len(attrs) > 0 {
			suffix = " [" + strings.Join(attrs, ", ") + "]"
		}
		fmt.Fprintf(&b, "\t%q -> %q%s;\n", e.From, e.To, suffix)
	}
	b.WriteString("}\n")
	return b.String()
}
