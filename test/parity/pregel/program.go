package traces

import (
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// program is a graph as a scenario builds it, before it is known with which builder it is
// made. It has the methods of graph.Builder.
type program struct {
	fields []graph.Field
	nodes  []string
	steps  []func(f face)
}

// face is what programs are built with: graph.Builder, or the typed builder behind typedFace.
type face interface {
	node(name string, f pregel.Func, opts []graph.NodeOptions)
	subgraph(name string, g *pregel.Graph, opts []graph.NodeOptions)
	edge(from, to string)
	join(from []string, to string)
	branch(from, name string, path graph.Path, o graph.BranchOptions)
	sequence(names []string)
	defaults(o graph.NodeOptions)
}

func newProgram(fields ...graph.Field) *program { return &program{fields: fields} }

func (p *program) step(f func(f face)) *program {
	p.steps = append(p.steps, f)
	return p
}

// Node adds a node.
func (p *program) Node(name string, f pregel.Func, opts ...graph.NodeOptions) *program {
	p.nodes = append(p.nodes, name)
	return p.step(func(to face) { to.node(name, f, opts) })
}

// Subgraph adds a graph as a node.
func (p *program) Subgraph(name string, g *pregel.Graph, opts ...graph.NodeOptions) *program {
	p.nodes = append(p.nodes, name)
	return p.step(func(to face) { to.subgraph(name, g, opts) })
}

// Edge leads from one node to another.
func (p *program) Edge(from, to string) *program {
	return p.step(func(f face) { f.edge(from, to) })
}

// Join leads from several nodes, when all have run.
func (p *program) Join(from []string, to string) *program {
	return p.step(func(f face) { f.join(from, to) })
}

// Conditional leads where path says: to one of ends, which have their own names.
func (p *program) Conditional(from, name string, path graph.Path, ends ...string) *program {
	var labels map[string]string
	for _, e := range ends {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[e] = e
	}
	return p.ConditionalMap(from, name, path, labels)
}

// ConditionalMap is Conditional with names for the ends.
func (p *program) ConditionalMap(from, name string, path graph.Path, ends map[string]string) *program {
	return p.Branch(from, name, path, graph.BranchOptions{Ends: ends})
}

// Branch is Conditional with options.
func (p *program) Branch(from, name string, path graph.Path, o graph.BranchOptions) *program {
	return p.step(func(f face) { f.branch(from, name, path, o) })
}

// Sequence is an edge from each node to the next.
func (p *program) Sequence(names ...string) *program {
	return p.step(func(f face) { f.sequence(names) })
}

// Defaults are the options of nodes that have none of their own.
func (p *program) Defaults(o graph.NodeOptions) *program {
	return p.step(func(f face) { f.defaults(o) })
}

// Compile makes the graph with graph.Builder.
func (p *program) Compile(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(p.fields...)
	for _, s := range p.steps {
		s(plainFace{b})
	}
	return b.Compile(o)
}

// plainFace is graph.Builder.
type plainFace struct{ b *graph.Builder }

func (f plainFace) node(name string, run pregel.Func, opts []graph.NodeOptions) {
	f.b.Node(name, run, opts...)
}

func (f plainFace) subgraph(name string, g *pregel.Graph, opts []graph.NodeOptions) {
	f.b.Subgraph(name, g, opts...)
}

func (f plainFace) edge(from, to string)          { f.b.Edge(from, to) }
func (f plainFace) join(from []string, to string) { f.b.Join(from, to) }
func (f plainFace) sequence(names []string)       { f.b.Sequence(names...) }
func (f plainFace) defaults(o graph.NodeOptions)  { f.b.Defaults(o) }

func (f plainFace) branch(from, name string, path graph.Path, o graph.BranchOptions) {
	f.b.Branch(from, name, path, o)
}
