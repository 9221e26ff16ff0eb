package pregel

import (
	"slices"
	"strings"
)

// Drawing is a graph's nodes and edges, for people. A node of a graph inside is
// named after the node that runs it, a colon between.
type Drawing struct {
	Nodes []string
	Edges []Edge

	name  string
	notes map[string][]string // what is known of a node, ready to be shown
}

// DrawInside is Draw with the graphs inside in place of the nodes that run them,
// so many levels deep; negative is all the way. It is LangGraph's xray. A graph
// inside that does not begin, or does not end, in one node stays a node.
func (g *Graph) DrawInside(levels int) Drawing {
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

// replace puts what is inside of a node in its place, without the ends that lead to
// one node and from one.
func (d *Drawing) replace(node string, inside Drawing) {
	first, last := inside.outermost()
	if len(inside.Nodes) < 2 || first == "" || last == "" || !slices.Contains(d.Nodes, node) {
		return
	}
	inside.trim()
	first, last = inside.outermost()
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

// trim takes away the first node and the last where only one edge leads from it, or
// to it, and what remains begins, or ends, in one node as well.
func (d *Drawing) trim() {
	if first, _ := d.outermost(); first != "" {
		edges, rest := d.without(first)
		if next, _ := rest.outermost(); edges == 1 && next != "" {
			*d = rest
		}
	}
	if _, last := d.outermost(); last != "" {
		edges, rest := d.without(last)
		if _, next := rest.outermost(); edges == 1 && next != "" {
			*d = rest
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

// outermost are the only node that no edge leads to, and the only one that none
// leads from; "" if there are several.
func (d *Drawing) outermost() (first, last string) {
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

// around is the graph a name is in: the nodes that run it; "" is the outermost.
func around(name string) string {
	i := strings.LastIndex(name, nsEnd)
	return name[:max(i, 0)]
}

// own is a name without the nodes around it.
func own(name string) string { return name[strings.LastIndex(name, nsEnd)+1:] }

// commonAround is the innermost graph that both ends of an edge are in. An edge from a
// node to itself is drawn as a graph of its own, though without a frame.
func commonAround(e Edge) string {
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
