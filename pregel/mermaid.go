package pregel

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
)

var notWord = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// mermaidID is a name as Mermaid accepts it.
func mermaidID(name string) string {
	return notWord.ReplaceAllStringFunc(name, func(s string) string { return fmt.Sprintf("\\%x", []rune(s)[0]) })
}

// Mermaid draws the graph in Mermaid's language, as LangGraph does: a flowchart.
func (g *Graph) Mermaid() string {
	d := g.Draw()
	var b strings.Builder
	b.WriteString("---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n")
	first, last := d.outermost()
	for _, n := range d.Nodes {
		shape := "\t%s(%s)\n"
		switch n {
		case last:
			shape = "\t%s([%s]):::last\n"
		case first:
			shape = "\t%s([%s]):::first\n"
		}
		fmt.Fprintf(&b, shape, mermaidID(n), g.mermaidLabel(n))
	}
	slices.SortStableFunc(d.Edges, func(a, b Edge) int { return compareBools(a.From == a.To, b.From == b.To) }) // loops last
	for _, e := range d.Edges {
		arrow := "-->"
		switch {
		case e.Conditional && e.Label != "":
			arrow = fmt.Sprintf("-. &nbsp;%s&nbsp; .->", wrapWords(e.Label))
		case e.Conditional:
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "\t%s %s %s;\n", mermaidID(e.From), arrow, mermaidID(e.To))
	}
	b.WriteString("\tclassDef default fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n")
	return b.String()
}

// outermost are the only node that no edge leads to, and the only one that none
// leads from; "" if there are several.
func (d Drawing) outermost() (first, last string) {
	var firsts, lasts []string
	for _, n := range d.Nodes {
		if !slices.ContainsFunc(d.Edges, func(e Edge) bool { return e.To == n }) {
			firsts = append(firsts, n)
		}
		if !slices.ContainsFunc(d.Edges, func(e Edge) bool { return e.From == n }) {
			lasts = append(lasts, n)
		}
	}
	if len(firsts) == 1 {
		first = firsts[0]
	}
	if len(lasts) == 1 {
		last = lasts[0]
	}
	return first, last
}

// mermaidLabel is what is written in a node: its name, and what is known of it.
func (g *Graph) mermaidLabel(name string) string {
	label := name
	if strings.Trim(name[:1]+name[len(name)-1:], "*_`") == "" {
		label = "<p>" + name + "</p>"
	}
	if notes := g.nodeNotes(name); len(notes) > 0 {
		label += "<hr/><small><em>" + strings.Join(notes, "\n") + "</em></small>"
	}
	return label
}

// nodeNotes are a node's metadata in the order of its keys, whether it is deferred,
// and its breakpoints.
func (g *Graph) nodeNotes(name string) (notes []string) {
	n := g.nodes[name]
	if n == nil {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(n.Metadata)) {
		switch v := n.Metadata[k].(type) {
		case string, int, int64, float64:
			notes = append(notes, escapeLabel(fmt.Sprintf("%s = %v", k, v)))
		case bool:
			notes = append(notes, escapeLabel(k+" = "+map[bool]string{true: "True", false: "False"}[v]))
		}
	}
	if slices.ContainsFunc(n.Triggers, func(ch string) bool { return waitsForFinish(g.opts.Channels[ch]) }) {
		notes = append(notes, "defer = True")
	}
	var stops []string
	if slices.Contains(g.opts.InterruptBefore, name) {
		stops = append(stops, "before")
	}
	if slices.Contains(g.opts.InterruptAfter, name) {
		stops = append(stops, "after")
	}
	if len(stops) > 0 {
		notes = append(notes, "__interrupt = "+strings.Join(stops, ","))
	}
	return notes
}

// waitsForFinish reports whether c shows a value only once no node is left to run.
func waitsForFinish(c channel.Channel) bool {
	if c == nil {
		return false
	}
	c, err := c.Restore(nil)
	if err != nil {
		return false
	}
	_, err = c.Update([]any{nil})
	return err == nil && !c.Available() && c.Finish() && c.Available()
}

var labelEscapes = strings.NewReplacer("#", "#35;", "[", "#91;", "]", "#93;", "(", "#40;", ")", "#41;", "{", "#123;", "}", "#125;",
	`"`, "#quot;", "<", "#60;", ">", "#62;", "|", "#124;")

func escapeLabel(s string) string { return labelEscapes.Replace(s) }

// wrapWords breaks a long label into lines of nine words.
func wrapWords(label string) string {
	words := strings.Fields(label)
	if len(words) <= 9 {
		return label
	}
	var lines []string
	for chunk := range slices.Chunk(words, 9) {
		lines = append(lines, strings.Join(chunk, " "))
	}
	return strings.Join(lines, "&nbsp<br>&nbsp")
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
