package pregel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Drawing is a graph's nodes and edges, for people. A node of a graph inside is
// named after the node that runs it, a colon between.
type Drawing struct {
	Nodes []string
	Edges []Edge

	name  string
	notes map[string][]string // text to show in a node
}

// drawnSteps bounds how far a graph is followed to find its edges.
const drawnSteps = 251

// Draw lists nodes and edges as LangGraph draws them. Edges are in the order of their
// names. There is at most one from a node to another, only edges that can be reached from
// Start are listed, and a node that leads nowhere else has an edge to End. Conditional
// edges that do not say where they may lead are left out. If package graph did not build
// the graph, edges lead from nodes that are known to write a channel (WriteTo, WriteConst,
// WriteFunc) to the nodes it triggers. Graphs inside are drawn as nodes; see DrawInside.
func (g *Graph) Draw() Drawing {
	d := Drawing{Nodes: g.Nodes(), name: g.opts.Name, notes: map[string][]string{}}
	for _, n := range d.Nodes {
		d.notes[n] = g.nodeNotes(n)
	}
	var first []string
	if slices.Contains(d.Nodes, Start) {
		first = []string{Start}
	} else {
		d.Nodes = append(d.Nodes, Start)
		first = g.drawnStart()
		for _, n := range first {
			d.add(Edge{From: Start, To: n})
		}
	}
	edges, last := followEdges(g.drawnEdges(), first)
	from, ends := map[string]bool{}, false
	for _, e := range edges {
		from[e.From], ends = true, ends || e.To == End
		d.add(e)
	}
	termini := map[string]bool{}
	for _, e := range edges {
		if e.To != End && !from[e.To] {
			termini[e.To] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(termini)) {
		d.add(Edge{From: n, To: End})
	}
	if len(termini) == 0 && len(last) == 1 && !ends {
		d.add(Edge{From: last[0], To: End, Conditional: true})
	}
	return d
}

// add adds an edge between two nodes that have none.
func (d *Drawing) add(e Edge) {
	if slices.ContainsFunc(d.Edges, func(x Edge) bool { return x.From == e.From && x.To == e.To }) {
		return
	}
	if e.To == End && !slices.Contains(d.Nodes, End) {
		d.Nodes = append(d.Nodes, End)
	}
	d.Edges = append(d.Edges, e)
}

// drawnStart are the nodes that the input triggers.
func (g *Graph) drawnStart() (nodes []string) {
	for _, in := range g.input.Names {
		for _, n := range g.triggers[in] {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// drawnEdges are all edges, by the node they lead from.
func (g *Graph) drawnEdges() map[string][]Edge {
	edges := map[string][]Edge{}
	for _, e := range g.spec.Edges {
		edges[e.From] = append(edges[e.From], e)
	}
	if len(g.spec.Edges) > 0 {
		return edges
	}
	for _, n := range g.spec.Nodes {
		for _, ch := range n.writes {
			for _, to := range g.triggers[ch] {
				edges[n.Name] = append(edges[n.Name], Edge{From: n.Name, To: to})
			}
		}
		for _, to := range n.Targets {
			edges[n.Name] = append(edges[n.Name], Edge{From: n.Name, To: to, Conditional: true})
		}
	}
	return edges
}

// followEdges walks the graph without running it. An edge is taken whenever its node runs,
// a conditional one only the first time. Where two nodes have both kinds of edges, the
// conditional one is drawn. It returns the edges taken, in their order, and the nodes of
// the last superstep.
func followEdges(of map[string][]Edge, nodes []string) (taken []Edge, last []string) {
	seen, ran := map[Edge]bool{}, map[string]bool{}
	for range drawnSteps {
		if len(nodes) == 0 {
			break
		}
		next := map[string]bool{}
		for _, n := range nodes {
			for _, e := range of[n] {
				seen[e] = true
				if e.To != End && !(e.Conditional && ran[n]) {
					next[e.To] = true
				}
			}
		}
		for _, n := range nodes {
			ran[n] = true
		}
		last, nodes = nodes, slices.Sorted(maps.Keys(next))
	}
	for e := range seen {
		if !e.Conditional && e.To == End {
			continue // it leads nowhere: an edge to End is drawn from each node without other edges
		}
		taken = append(taken, e)
	}
	slices.SortFunc(taken, func(a, b Edge) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), cmp.Compare(b2i(b.Conditional), b2i(a.Conditional)),
			strings.Compare(a.Label, b.Label))
	})
	return taken, last
}

// DrawInside is Draw with graphs inside drawn in place of the nodes that run them, to a
// depth of levels; negative is all the way. It is LangGraph's xray. A graph inside that
// does not begin in one node, or does not end in one, stays a node.
func (g *Graph) DrawInside(levels int) Drawing {
	g.mustBe()
	d := g.Draw()
	if levels == 0 {
		return d
	}
	for _, name := range g.order {
		if sub := g.subgraphOf(name); sub != nil {
			d.replace(name, sub.DrawInside(levels-1))
		}
	}
	return d
}

// replace replaces a node by the graph inside it. It removes that graph's Start and End if
// only one edge touches each of them.
func (d *Drawing) replace(node string, inside Drawing) {
	first, last := inside.first(), inside.last()
	if len(inside.Nodes) < 2 || first == "" || last == "" || !slices.Contains(d.Nodes, node) {
		return
	}
	inside.trim()
	first, last = inside.first(), inside.last()
	prefixed := func(name string) string { return node + nsEnd + name }
	d.Nodes = slices.DeleteFunc(d.Nodes, func(n string) bool { return n == node })
	for _, n := range inside.Nodes {
		d.Nodes = append(d.Nodes, prefixed(n))
		d.notes[prefixed(n)] = inside.notes[n]
	}
	for i, e := range d.Edges {
		if e.From == node {
			d.Edges[i].From = prefixed(last)
		}
		if e.To == node {
			d.Edges[i].To = prefixed(first)
		}
	}
	for _, e := range inside.Edges {
		e.From, e.To = prefixed(e.From), prefixed(e.To)
		d.Edges = append(d.Edges, e)
	}
}

// trim removes the first node if only one edge leads from it and the rest still begins in one
// node. It does the same at the end.
func (d *Drawing) trim() {
	for _, end := range []func(*Drawing) string{(*Drawing).first, (*Drawing).last} {
		if node := end(d); node != "" {
			if edges, rest := d.without(node); edges == 1 && end(&rest) != "" {
				*d = rest
			}
		}
	}
}

// without is d without a node, and the number of edges that touched it.
func (d *Drawing) without(node string) (edges int, rest Drawing) {
	rest = Drawing{name: d.name, notes: d.notes}
	for _, n := range d.Nodes {
		if n != node {
			rest.Nodes = append(rest.Nodes, n)
		}
	}
	for _, e := range d.Edges {
		if e.From != node && e.To != node {
			rest.Edges = append(rest.Edges, e)
		}
	}
	return len(d.Edges) - len(rest.Edges), rest
}

// first is the only node that no edge leads to; "" if there are several.
func (d *Drawing) first() string {
	return d.only(func(e Edge) string { return e.To })
}

// last is the only node that no edge leads from; "" if there are several.
func (d *Drawing) last() string {
	return d.only(func(e Edge) string { return e.From })
}

func (d *Drawing) only(end func(Edge) string) (found string) {
	n := 0
	for _, node := range d.Nodes {
		if !slices.ContainsFunc(d.Edges, func(e Edge) bool { return end(e) == node }) {
			found, n = node, n+1
		}
	}
	if n > 1 {
		return ""
	}
	return found
}

// enclosing is the graph that a node is in, as the path of the nodes that run it; "" for the
// outermost graph.
func enclosing(name string) string {
	i := strings.LastIndex(name, nsEnd)
	return name[:max(i, 0)]
}

// baseName is the name of a node without the path to it.
func baseName(name string) string { return name[strings.LastIndex(name, nsEnd)+1:] }

// commonGraph is the innermost graph that both ends of an edge are in. An edge from a node to
// itself is drawn as a separate graph without a frame.
func commonGraph(e Edge) string {
	if e.From == e.To {
		return e.From
	}
	a, b := strings.Split(e.From, nsEnd), strings.Split(e.To, nsEnd)
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.Join(a[:n], nsEnd)
}
