package graph

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

const (
	branchTo       = "branch:to:"
	defaultHandler = "__default_error_handler__"
)

// Options are options of a compiled graph. The zero value keeps nothing.
type Options = pregel.Options

// Compile makes the graph. If that is not possible, it returns a pregel.GraphError that says
// why.
func (b *Builder) Compile(o Options) (*pregel.Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if len(b.schema.keys) == 0 {
		return nil, &pregel.GraphError{Reason: "the state has no keys"}
	}
	if b.schema.has(pregel.RootKey) && !b.schema.isRoot() {
		return nil, &pregel.GraphError{Channel: pregel.RootKey, Reason: "a state that is one value has no other keys, and no computed ones"}
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	own := *b
	own.named = maps.Clone(b.named) // a graph that runs reads it
	b = &own
	c := &compiler{b: b, nodes: map[string]*pregel.Node{}, channels: maps.Clone(b.schema.channels), order: b.schema.stored(), langGraph: o.LangGraph}
	c.add(Start, channel.Ephemeral[any](channel.Guarded))
	if err := c.attachNodes(); err != nil {
		return nil, err
	}
	c.attachEdges()
	spec := pregel.Spec{Channels: c.channels, ChannelOrder: c.order, Managed: b.schema.managed, Migrate: c.migrate, Aliases: b.aliases,
		CheckStored: b.unknown, UnknownInside: b.inside, Edges: c.drawn,
		Input: pregel.One(Start), InputKeys: b.schema.shown(b.stored(b.input)), CheckInput: b.checkInput(),
		Output: b.schema.shown(b.stored(b.output)), Stream: b.schema.shown(b.schema.stored())}
	for _, n := range c.names {
		spec.Nodes = append(spec.Nodes, c.nodes[n])
	}
	switch {
	case b.strict:
		spec.CheckKeys = b.checkKeys
	case !b.schema.isRoot():
		spec.CheckKeys = b.checkSome
	}
	if len(o.Modes) == 0 {
		o.Modes = []pregel.Mode{pregel.ModeUpdates}
	}
	return pregel.New(spec, o)
}

// stored is keys, or else all that are kept in channels.
func (b *Builder) stored(keys []string) []string {
	if len(keys) > 0 {
		return keys
	}
	return b.schema.stored()
}

// compiler makes the engine's nodes and channels from a Builder.
type compiler struct {
	b         *Builder
	names     []string // nodes in order
	nodes     map[string]*pregel.Node
	channels  map[string]channel.Channel
	order     []string
	drawn     []pregel.Edge
	deferred  map[string]bool
	langGraph bool
}

func (c *compiler) add(name string, ch channel.Channel) {
	if _, ok := c.channels[name]; !ok {
		c.order = append(c.order, name)
	}
	c.channels[name] = ch
}

func (c *compiler) attachNodes() error {
	b := c.b
	start := &pregel.Node{Name: Start, Tags: []string{pregel.TagHidden}, Triggers: []string{Start}, Reads: pregel.One(Start),
		Writers: []pregel.Writer{b.writer(b.stored(b.input), c.langGraph)}}
	c.names, c.nodes[Start] = []string{Start}, start
	c.deferred = map[string]bool{}
	nodes := slices.Clone(b.nodes)
	if b.defaults.OnError != nil {
		if b.find(defaultHandler) != nil {
			return &pregel.GraphError{Node: defaultHandler, Reason: "the name is that of the default error handler"}
		}
		nodes = append(nodes, &node{name: defaultHandler, run: b.defaults.OnError, handler: true})
	}
	for _, n := range nodes {
		pn, err := c.node(n)
		if err != nil {
			return err
		}
		c.names, c.nodes[n.name] = append(c.names, n.name), pn
	}
	return nil
}

func (c *compiler) node(n *node) (*pregel.Node, error) {
	b, o := c.b, n.opts
	keys := b.schema.keys
	if o.Reads != nil {
		for _, k := range o.Reads {
			if !b.schema.has(k) {
				return nil, &pregel.GraphError{Node: n.name, Channel: k, Reason: "is read, but it is no key of the state"}
			}
		}
		keys = o.Reads
	}
	trigger := channel.Ephemeral[any](channel.Unguarded)
	if o.Defer {
		trigger = channel.LastValueAfterFinish[any]()
		c.deferred[n.name] = true
	}
	c.add(branchTo+n.name, trigger)
	pn := &pregel.Node{Name: n.name, Triggers: []string{branchTo + n.name}, Reads: b.schema.shown(keys), CheckInput: n.check, Run: n.run,
		Writers: []pregel.Writer{b.writer(b.schema.keys, c.langGraph)}, Retry: o.Retry, Cache: o.Cache, Timeout: cmp.Or(o.Timeout, b.defaults.Timeout),
		Tags: o.Tags, Metadata: o.Metadata, ErrorHandler: n.onError, Handler: n.handler, Subgraphs: o.Subgraphs, IsGraph: n.isGraph, Targets: o.Targets}
	if len(pn.Retry) == 0 {
		pn.Retry = b.defaults.Retry
	}
	if !n.handler {
		pn.Cache = cmp.Or(pn.Cache, b.defaults.Cache)
		if pn.ErrorHandler == "" && b.defaults.OnError != nil {
			pn.ErrorHandler = defaultHandler
		}
	}
	return pn, nil
}

func (c *compiler) attachEdges() {
	for _, e := range c.b.edges {
		c.drawn = append(c.drawn, pregel.Edge{From: e.from, To: e.to})
		if e.to != End {
			c.write(e.from, constant(branchTo+e.to, nil))
		}
	}
	for _, j := range c.b.joins {
		for _, f := range j.from {
			c.drawn = append(c.drawn, pregel.Edge{From: f, To: j.to})
		}
		if j.to == End {
			continue
		}
		name := "join:" + strings.Join(j.from, "+") + ":" + j.to
		if c.deferred[j.to] {
			c.add(name, channel.NamedBarrierAfterFinish(j.from...))
		} else {
			c.add(name, channel.NamedBarrier(j.from...))
		}
		c.nodes[j.to].Triggers = append(c.nodes[j.to].Triggers, name)
		for _, f := range j.from {
			c.write(f, constant(name, f))
		}
	}
	for _, br := range c.b.branches {
		c.write(br.from, c.b.branchWriter(br))
		for _, label := range br.order { // one that may lead to any node is not drawn, as in LangGraph
			e := pregel.Edge{From: br.from, To: br.ends[label], Conditional: true}
			if label != e.To {
				e.Label = label
			}
			c.drawn = append(c.drawn, e)
		}
	}
	for _, n := range c.b.nodes {
		for _, t := range n.opts.Targets {
			c.drawn = append(c.drawn, pregel.Edge{From: n.name, To: t, Conditional: true})
		}
	}
}

func (c *compiler) write(from string, w pregel.Writer) {
	n := c.nodes[from]
	n.Writers = append(n.Writers, w)
}

func constant(ch string, v any) pregel.Writer {
	return func(w *pregel.Writing, _ any) error { return w.Write(ch, v) }
}
