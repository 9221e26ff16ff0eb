package graph

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// The ends of a graph.
const (
	Start = pregel.Start
	End   = pregel.End
)

// Path is the function of a conditional edge. It gets the state including the update of the
// node. It returns where to go: the name of a node, End, a pregel.Send, or a list of these.
type Path func(ctx context.Context, state any) (any, error)

// NodeOptions are options of a node.
type NodeOptions struct {
	// Defer makes the node wait until no other node is left to run.
	Defer    bool
	Retry    []pregel.RetryPolicy
	Cache    *pregel.CachePolicy
	Timeout  *pregel.TimeoutPolicy
	Metadata map[string]any
	Tags     []string
	// OnError runs when the node fails for good, in the same superstep and with the
	// same input. It gets the error from pregel.Task.
	OnError pregel.Func
	// Targets are the nodes its Commands may go to, for validation and drawing.
	Targets []string
	// Reads are the keys it gets; nil is all.
	Reads []string
	// Subgraphs are the graphs it runs, so that their state can be looked at.
	Subgraphs []*pregel.Graph
}

type node struct {
	name    string
	run     pregel.Func
	opts    NodeOptions
	handler bool                  // is an error handler
	isGraph bool                  // see pregel.Node
	onError string                // the name of its handler
	check   func(input any) error // whether run takes an input; may be nil
}

type branch struct {
	from, name string
	path       Path
	ends       map[string]string // labels to names of nodes; nil: the path returns names
	order      []string          // the labels, sorted
	reads      []string          // nil: the keys that its node reads
}

type edge struct{ from, to string }

type join struct {
	from []string
	to   string
}

// Builder collects nodes and edges. The first error is kept and returned by
// Compile. A compiled graph does not change with its builder. Not safe for
// concurrent use.
type Builder struct {
	schema   *schema
	nodes    []*node
	named    map[string]*node // the first of each name
	edges    []edge
	drawn    map[edge]bool // those in edges
	joins    []join
	branches []branch
	input    []string
	output   []string
	defaults NodeOptions
	aliases  map[string]string // former names of keys
	unknown  func(ctx context.Context, at pregel.Address, keys []string) error
	inside   func(key string, v any) []string // keys that would be lost in a stored value
	strict   bool                             // unknown keys from outside are refused
	err      error
}

// New begins a graph whose state is a map with these keys.
func New(fields ...Field) *Builder {
	s, err := newSchema(fields)
	return &Builder{schema: s, named: map[string]*node{}, drawn: map[edge]bool{}, err: err}
}

func (b *Builder) failf(nodeName, format string, args ...any) *Builder {
	if b.err == nil {
		b.err = &pregel.GraphError{Node: nodeName, Reason: fmt.Sprintf(format, args...)}
	}
	return b
}

// Input names the keys a run's input may have; without it, all.
func (b *Builder) Input(keys ...string) *Builder { b.input = keys; return b }

// Output names the keys of a run's result; without it, all.
func (b *Builder) Output(keys ...string) *Builder { b.output = keys; return b }

// Defaults sets options for nodes that do not set them: Retry and Timeout for all nodes,
// Cache and OnError for all except error handlers.
func (b *Builder) Defaults(o NodeOptions) *Builder { b.defaults = o; return b }

func (b *Builder) find(name string) *node { return b.named[name] }

func (b *Builder) addNode(n *node) {
	b.nodes = append(b.nodes, n)
	if b.named[n.name] == nil {
		b.named[n.name] = n
	}
}

// Node adds a node.
func (b *Builder) Node(name string, f pregel.Func, opts ...NodeOptions) *Builder {
	n := &node{name: name, run: f, opts: lastOf(opts)}
	switch {
	case f == nil:
		return b.failf(name, "has no function")
	case name == "" || name == Start || name == End:
		return b.failf(name, "the name is reserved")
	case strings.ContainsAny(name, "|:"):
		return b.failf(name, "'|' and ':' are reserved characters in node names")
	case b.find(name) != nil:
		return b.failf(name, "there is a node of this name already")
	}
	b.addNode(n)
	if n.opts.OnError != nil {
		b.handler(n, "__error_handler__"+name, n.opts.OnError)
	}
	return b
}

// lastOf is the last of the options that a call was given, if any.
func lastOf[T any](opts []T) (last T) {
	if n := len(opts); n > 0 {
		last = opts[n-1]
	}
	return last
}

func (b *Builder) handler(n *node, name string, f pregel.Func) {
	n.onError = name
	b.addNode(&node{name: name, run: f, handler: true})
}

// Subgraph adds a graph as a node. Its input is the state, and its result is the update. What it took out
// of a conversation that is a message.List, such as messages that it summarized, is taken out here too:
// then the update begins with removals, and the rest is in its order.
func (b *Builder) Subgraph(name string, g *pregel.Graph, opts ...NodeOptions) *Builder {
	if g == nil {
		return b.failf(name, "the graph inside is nil")
	}
	o := lastOf(opts)
	o.Subgraphs = append([]*pregel.Graph{g}, o.Subgraphs...)
	b.Node(name, func(ctx context.Context, input any) (any, error) {
		res, err := g.Invoke(ctx, pregel.Inside(), input)
		if err != nil {
			return nil, err
		}
		return b.since(input, res.Value), nil
	}, o)
	if n := b.find(name); n != nil {
		n.isGraph = true
	}
	return b
}

// since returns the result of a graph inside as an update of the state that was its input: a value that
// tells what it lost since then is written so, if the channel here understands that.
func (b *Builder) since(input, result any) any {
	before, _ := input.(map[string]any)
	after, _ := result.(map[string]any)
	var out map[string]any
	for k, v := range after {
		now, knows := v.(interface{ Since(before any) (any, bool) })
		was, had := before[k]
		ch := b.schema.channels[k]
		if !knows || !had || ch == nil {
			continue
		}
		update, lost := now.Since(was)
		if !lost || !leads(ch.Named(k), was, update, v) {
			continue
		}
		if out == nil {
			out = maps.Clone(after)
		}
		out[k] = update
	}
	if out == nil {
		return result
	}
	return out
}

// leads reports whether an update makes an empty channel with the value from hold the value to.
func leads(ch channel.Channel, from, update, to any) bool {
	for _, v := range []any{from, update} {
		if _, err := ch.Update([]any{v}); err != nil {
			return false
		}
	}
	v, ok := ch.Get()
	return ok && reflect.DeepEqual(v, to)
}

// Edge makes to run after from.
func (b *Builder) Edge(from, to string) *Builder {
	switch {
	case from == End:
		return b.failf(from, "END cannot be a start node")
	case to == Start:
		return b.failf(to, "graph.Start cannot be the end of an edge")
	}
	if e := (edge{from, to}); !b.drawn[e] {
		b.edges, b.drawn[e] = append(b.edges, e), true
	}
	return b
}

// Join makes to run after all of from have run, in whatever supersteps.
func (b *Builder) Join(from []string, to string) *Builder {
	for _, f := range from {
		if f == End {
			return b.failf(f, "END cannot be a start node")
		}
		if b.find(f) == nil {
			return b.failf(f, "Need to add_node `%s` first", f)
		}
	}
	switch {
	case to == Start:
		return b.failf(to, "graph.Start cannot be the end of an edge")
	case len(from) == 0:
		return b.failf(to, "a join needs nodes to wait for")
	}
	b.joins = append(b.joins, join{slices.Clone(from), to})
	return b
}

// Conditional lets path decide where to go after from. ends are the names that path may
// return; without ends it may return all.
func (b *Builder) Conditional(from, name string, path Path, ends ...string) *Builder {
	var m map[string]string
	if len(ends) > 0 {
		m = map[string]string{}
		for _, e := range ends {
			m[e] = e
		}
	}
	return b.ConditionalMap(from, name, path, m)
}

// ConditionalMap is Conditional where path returns labels that ends translates.
func (b *Builder) ConditionalMap(from, name string, path Path, ends map[string]string) *Builder {
	return b.Branch(from, name, path, BranchOptions{Ends: ends})
}

// BranchOptions are options of a conditional edge.
type BranchOptions struct {
	// Ends maps what the path returns to names of nodes; if it is nil, the path returns
	// names.
	Ends map[string]string
	// Reads are the keys that the path sees. If it is nil, they are those that its node
	// reads, and the path also sees what the node returned under other names.
	Reads []string
}

// Branch is Conditional with options.
func (b *Builder) Branch(from, name string, path Path, o BranchOptions) *Builder {
	if name == "" {
		name = "condition"
	}
	if path == nil {
		return b.failf(from, "branch `%s` has no function", name)
	}
	for _, br := range b.branches {
		if br.from == from && br.name == name {
			return b.failf(from, "Branch with name `%s` already exists for node `%s`", name, from)
		}
	}
	b.branches = append(b.branches, branch{from: from, name: name, path: path, ends: o.Ends, order: slices.Sorted(maps.Keys(o.Ends)),
		reads: slices.Clone(o.Reads)})
	return b
}

// Sequence adds edges from each name to the next.
func (b *Builder) Sequence(names ...string) *Builder {
	if len(names) == 0 {
		return b.failf("", "Sequence requires at least one node")
	}
	for i := 1; i < len(names); i++ {
		b.Edge(names[i-1], names[i])
	}
	return b
}

// known lists the nodes of the graph, some of them if they are many.
func (b *Builder) known() string {
	const most = 20
	names := make([]string, 0, most)
	for _, n := range b.nodes[:min(len(b.nodes), most)] {
		names = append(names, n.name)
	}
	if more := len(b.nodes) - len(names); more > 0 {
		return fmt.Sprintf("the graph has %q and %d more", names, more)
	}
	return fmt.Sprintf("the graph has %q", names)
}

// validate checks the names in edges, branches, targets, input and output.
func (b *Builder) validate() error {
	known := func(name string) bool { return b.find(name) != nil }
	started := false
	source := func(name string) error {
		started = started || name == Start
		if name != Start && !known(name) {
			return &pregel.GraphError{Node: name, Reason: "Found edge starting at unknown node; " + b.known()}
		}
		return nil
	}
	target := func(name string, from ...string) error {
		if name != End && !known(name) {
			return &pregel.GraphError{Node: name, Reason: fmt.Sprintf("Found edge ending at unknown node; it begins at %q; %s", from, b.known())}
		}
		return nil
	}
	var checks []error
	for _, e := range b.edges {
		checks = append(checks, source(e.from), target(e.to, e.from))
	}
	for _, j := range b.joins {
		for _, f := range j.from {
			checks = append(checks, source(f))
		}
		checks = append(checks, target(j.to, j.from...))
	}
	for _, br := range b.branches {
		checks = append(checks, source(br.from))
		for _, label := range br.order {
			checks = append(checks, target(br.ends[label], br.from))
		}
		for _, k := range br.reads {
			if !b.schema.has(k) {
				checks = append(checks, &pregel.GraphError{Node: br.from, Channel: k, Reason: fmt.Sprintf("is read by branch %q, but it is no key of the state", br.name)})
			}
		}
	}
	for _, n := range b.nodes {
		for _, t := range n.opts.Targets {
			checks = append(checks, target(t, n.name))
		}
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	if !started {
		return &pregel.GraphError{Node: Start, Reason: "the graph has no entry: add an edge from graph.Start to a node"}
	}
	for _, keys := range [][]string{b.input, b.output} {
		for _, k := range keys {
			if _, ok := b.schema.channels[k]; !ok {
				return &pregel.GraphError{Channel: k, Reason: "is no key of the state that input or output can have"}
			}
		}
	}
	return nil
}
