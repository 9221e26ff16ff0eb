package pregel

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
)

var notWord = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// mermaidID is a name, escaped for Mermaid.
func mermaidID(name string) string {
	return notWord.ReplaceAllStringFunc(name, func(s string) string { return fmt.Sprintf("\\%x", []rune(s)[0]) })
}

// Mermaid draws the graph in Mermaid's language, as LangGraph does: a flowchart.
func (g *Graph) Mermaid() string { return g.Draw().Mermaid() }

// Mermaid is the drawing in Mermaid's language: a flowchart, graphs inside in frames.
func (d Drawing) Mermaid() string {
	m := &mermaid{d: d, inside: map[string][]string{}, edges: map[string][]Edge{}, framed: map[string]bool{}}
	m.first, m.last = d.first(), d.last()
	m.text.WriteString("---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n")
	for _, n := range d.Nodes {
		m.group(enclosing(n))
		m.inside[enclosing(n)] = append(m.inside[enclosing(n)], n)
	}
	var order []string
	for _, e := range d.Edges {
		at := commonGraph(e)
		if len(m.edges[at]) == 0 {
			order = append(order, at)
		}
		m.edges[at] = append(m.edges[at], e)
	}
	for _, at := range order {
		m.group(at)
	}
	// Frames come in the order of their edges, those without edges last.
	slices.SortStableFunc(m.groups, func(a, b string) int { return compareRanks(slices.Index(order, a), slices.Index(order, b)) })
	m.draw("")
	m.text.WriteString("\tclassDef default fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n")
	return m.text.String()
}

// compareRanks orders ranks, and no rank (−1) last.
func compareRanks(a, b int) int {
	if (a < 0) != (b < 0) {
		return cmp.Compare(b2i(a < 0), b2i(b < 0))
	}
	return a - b
}

// mermaid writes a drawing, one graph inside after another.
type mermaid struct {
	d           Drawing
	first, last string
	groups      []string            // the graphs inside, and nodes with an edge to themselves
	inside      map[string][]string // nodes by the graph they are in
	edges       map[string][]Edge
	framed      map[string]bool // the names of frames
	text        strings.Builder
}

// group adds a nested graph, and those around it.
func (m *mermaid) group(at string) {
	for ; at != ""; at = enclosing(at) {
		if !slices.Contains(m.groups, at) {
			m.groups = append(m.groups, at)
		}
	}
}

// draw writes a graph: its nodes, its edges, and then the graphs inside it.
func (m *mermaid) draw(at string) {
	frame := at != "" && !slices.Contains(m.d.Nodes, at)
	if frame {
		name := baseName(at)
		if m.framed[name] { // Mermaid would merge frames of the same name
			name = mermaidID(at)
		}
		m.framed[name] = true
		fmt.Fprintf(&m.text, "\tsubgraph %s\n", name)
	}
	for _, n := range m.inside[at] {
		m.node(n)
	}
	for _, e := range m.edges[at] {
		m.edge(e)
	}
	for _, g := range m.groups {
		if enclosing(g) == at && g != at {
			m.draw(g)
		}
	}
	if frame {
		m.text.WriteString("\tend\n")
	}
}

func (m *mermaid) node(n string) {
	shape := "\t%s(%s)\n"
	switch n {
	case m.last:
		shape = "\t%s([%s]):::last\n"
	case m.first:
		shape = "\t%s([%s]):::first\n"
	}
	fmt.Fprintf(&m.text, shape, mermaidID(n), m.label(n))
}

func (m *mermaid) edge(e Edge) {
	arrow := "-->"
	switch {
	case e.Conditional && e.Label != "":
		arrow = fmt.Sprintf("-. &nbsp;%s&nbsp; .->", wrapWords(e.Label))
	case e.Conditional:
		arrow = "-.->"
	}
	fmt.Fprintf(&m.text, "\t%s %s %s;\n", mermaidID(e.From), arrow, mermaidID(e.To))
}

// label is the text in a node: its name and its notes.
func (m *mermaid) label(n string) string {
	label := baseName(n)
	if label != "" && strings.Trim(label[:1]+label[len(label)-1:], "*_`") == "" {
		label = "<p>" + label + "</p>"
	}
	if notes := m.d.notes[n]; len(notes) > 0 {
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
	if slices.ContainsFunc(n.Triggers, func(ch string) bool { return waitsForFinish(g.spec.Channels[ch]) }) {
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
func (g *Graph) DOT() string { return g.Draw().DOT() }

// DOT is the drawing in the language of Graphviz.
func (d Drawing) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n", d.name)
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
