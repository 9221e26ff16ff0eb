package server

import (
	"strconv"
	"strings"

	"github.com/stele-go/stele/pregel"
)

// namedGraph is the graph of an assistant.
type namedGraph struct {
	*pregel.Graph
	name string // which it has here
}

// graph is the graph of the path's assistant.
func (s *assistantAPI) graph(c *call) (namedGraph, error) {
	a, err := s.read(c)
	if err != nil {
		return namedGraph{}, err
	}
	g, err := s.graphs.named(a.GraphID)
	return namedGraph{g, a.GraphID}, err
}

// drawing answers with the drawing of an assistant's graph.
func (s *assistantAPI) drawing(c *call, g namedGraph) error {
	levels := 0
	if x := c.query("xray"); x != "" {
		if n, err := strconv.Atoi(x); err == nil && n >= 0 {
			levels = n
		} else if strings.EqualFold(x, "true") {
			levels = -1
		} else if !strings.EqualFold(x, "false") {
			return fail(422, "Invalid xray value: %s", x)
		}
	}
	d := g.DrawInside(levels)
	type data struct {
		Name string `json:"name"`
	}
	type node struct {
		ID   string `json:"id"`
		Type string `json:"type,omitempty"`
		Data *data  `json:"data,omitempty"`
	}
	type edge struct {
		Source      string `json:"source"`
		Target      string `json:"target"`
		Data        string `json:"data,omitempty"`
		Conditional bool   `json:"conditional,omitempty"`
	}
	var shown struct {
		Nodes []node `json:"nodes"`
		Edges []edge `json:"edges"`
	}
	shown.Edges = []edge{}
	for _, n := range d.Nodes {
		if n == pregel.End {
			shown.Nodes = append(shown.Nodes, node{ID: n})
			continue
		}
		shown.Nodes = append(shown.Nodes, node{ID: n, Type: "runnable", Data: &data{n}})
	}
	for _, e := range d.Edges {
		shown.Edges = append(shown.Edges, edge{e.From, e.To, e.Label, e.Conditional})
	}
	return c.json(shown)
}

func (s *assistantAPI) schemas(c *call, g namedGraph) error {
	found := s.graphs.schemasOf(g.name, g.Graph)
	found.GraphID = g.name
	return c.json(found)
}

// subgraphs answers with the schemas of the graphs inside an assistant's graph, by
// the path of nodes that leads there.
func (s *assistantAPI) subgraphs(c *call, g namedGraph) error {
	only := c.path("namespace")
	recurse, err := c.isTrue("recurse", false)
	if err != nil {
		return err
	}
	shown := map[string]schemas{}
	for _, inside := range g.GetSubgraphs() {
		deep := strings.Contains(inside.Namespace, "|")
		if only != "" && inside.Namespace != only && !(recurse && strings.HasPrefix(inside.Namespace, only+"|")) || only == "" && deep && !recurse {
			continue
		}
		shown[inside.Namespace] = s.graphs.schemasOf(inside.Graph.Name(), inside.Graph)
	}
	return c.json(shown)
}
