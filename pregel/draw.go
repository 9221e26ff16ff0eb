package pregel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// drawnSteps bounds how far a graph is followed to find its edges.
const drawnSteps = 251

// Draw lists nodes and edges as LangGraph draws them: edges in the order of their
// names, at most one from a node to another, only those that can be reached from
// Start, and one to End from every node that leads nowhere else. Conditional edges
// that do not say where they may lead are left out. Of a graph that was not built
// by package graph, edges lead from who is known to write a channel (WriteTo,
// WriteConst, WriteFunc) to whom it triggers. Graphs inside are nodes; see
// DrawInside.
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

// followEdges runs the graph in thought: an edge is taken whenever its node runs, a
// conditional one only the first time. Between two nodes a conditional edge comes
// first, and is the one that is drawn. It returns the edges taken, in their order,
// and the nodes of the last superstep.
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
			continue // it leads nowhere: End is drawn from whoever has no other edge
		}
		taken = append(taken, e)
	}
	slices.SortFunc(taken, func(a, b Edge) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), compareBools(b.Conditional, a.Conditional), strings.Compare(a.Label, b.Label))
	})
	return taken, last
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
