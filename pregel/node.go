package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Node is one node of a graph in the engine's terms. NodeBuilder and package graph make
// them. A Node must not change once it is part of a Graph.
type Node struct {
	Name string
	// Triggers are the channels whose update makes the node run.
	Triggers []string
	// Reads are the channels and managed values that make the node's input. A single one
	// gives its value; several give a map[string]any of those that have a value.
	Reads Keys
	// Mapper turns the value read into the input of Run; nil passes it on.
	Mapper func(input any) (any, error)
	// CheckInput, if not nil, returns the error with which Run would refuse an input before it does
	// anything, for Preflight. It must not change the input.
	CheckInput func(input any) error
	// Run is the body; nil passes the input on to the writers.
	Run Func
	// Writers get the output one after another.
	Writers []Writer

	Retry    []RetryPolicy
	Cache    *CachePolicy
	Timeout  *TimeoutPolicy
	Tags     []string
	Metadata map[string]any

	// ErrorHandler names the node that runs when this one fails for good.
	ErrorHandler string
	// Handler marks a node that is such a handler.
	Handler bool
	// Subgraphs are the graphs that the body runs. They need naming only so that their
	// state can be looked at.
	Subgraphs []*Graph
	// IsGraph says that Run runs the first of Subgraphs, and does nothing else.
	IsGraph bool
	// Targets are the nodes that Run may name in a Command, for drawing.
	Targets []string

	writes []string // the channels that are known to be written, for drawing
}

func (n *Node) hidden() bool { return slices.Contains(n.Tags, TagHidden) }

func (n *Node) executable() bool { return n.Run != nil || len(n.Writers) > 0 }

// Writer turns a node's output into writes.
type Writer func(w *Writing, output any) error

// Writing is where a Writer writes. It is used by one goroutine.
type Writing struct {
	ctx  context.Context
	node string
	to   writingTo
}

// writingTo takes the writes of a Writer, and reads the state with them applied.
type writingTo interface {
	writeTo(channel string, value any)
	readWithOwn(sel Keys) (Pairs, error)
}

// Context is the context of the task.
func (w *Writing) Context() context.Context { return w.ctx }

// Node is the node whose output is written.
func (w *Writing) Node() string { return w.node }

// Write writes value to channel. The channel of packets is reserved.
func (w *Writing) Write(channel string, value any) error {
	if channel == chTasks {
		return &InvalidUpdateError{Node: w.node, Reason: "Cannot write to the reserved channel TASKS"}
	}
	w.to.writeTo(channel, value)
	return nil
}

// Send sends a packet.
func (w *Writing) Send(p Send) { w.to.writeTo(chTasks, p) }

// Read returns the state with only this task's own writes applied.
func (w *Writing) Read(sel Keys) (any, error) {
	values, err := w.to.readWithOwn(sel)
	if err != nil {
		return nil, err
	}
	return selected(sel, values), nil
}

// ReadPairs is Read without the map: the keys that have a value, in the order of keys.
func (w *Writing) ReadPairs(keys ...string) (Pairs, error) { return w.to.readWithOwn(Many(keys...)) }

// WriteTo is the Writer that passes the output to channels.
func WriteTo(channels ...string) Writer {
	return func(w *Writing, output any) error {
		for _, c := range channels {
			if err := w.Write(c, output); err != nil {
				return err
			}
		}
		return nil
	}
}

// errSkipWrite is returned by a mapper that writes nothing.
var errSkipWrite = errors.New("skip this write")

// SkipWrite returns the error with which a function given to NodeBuilder.WriteFunc writes
// nothing.
func SkipWrite() error { return errSkipWrite }

// NodeBuilder makes a Node step by step, in LangGraph's words. The first error is kept and
// returned by Build.
type NodeBuilder struct {
	node Node
	body []Func
	one  bool
	err  error
}

// NewNode begins a node.
func NewNode(name string) *NodeBuilder { return &NodeBuilder{node: Node{Name: name}} }

func (b *NodeBuilder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = &GraphError{Node: b.node.Name, Reason: fmt.Sprintf(format, args...)}
	}
}

// SubscribeOnly makes the node run on one channel and get its value alone.
func (b *NodeBuilder) SubscribeOnly(ch string) *NodeBuilder {
	if len(b.node.Reads.Names) > 0 {
		b.fail("cannot subscribe to a single channel, others are subscribed to")
		return b
	}
	b.one = true
	b.node.Reads = One(ch)
	b.node.Triggers = append(b.node.Triggers, ch)
	return b
}

// SubscribeTo makes the node run on each of channels and read them.
func (b *NodeBuilder) SubscribeTo(channels ...string) *NodeBuilder {
	return b.TriggerOn(channels...).ReadFrom(channels...)
}

// TriggerOn makes the node run on channels without reading them.
func (b *NodeBuilder) TriggerOn(channels ...string) *NodeBuilder {
	for _, c := range channels {
		if !slices.Contains(b.node.Triggers, c) {
			b.node.Triggers = append(b.node.Triggers, c)
		}
	}
	return b
}

// ReadFrom adds channels and managed values to the node's input.
func (b *NodeBuilder) ReadFrom(channels ...string) *NodeBuilder {
	if b.one {
		b.fail("cannot read further channels, it subscribes to a single one")
		return b
	}
	for _, c := range channels {
		if !b.node.Reads.has(c) {
			b.node.Reads.Names = append(b.node.Reads.Names, c)
		}
	}
	return b
}

// Do appends f to the body.
func (b *NodeBuilder) Do(f Func) *NodeBuilder {
	b.body = append(b.body, f)
	return b
}

// WriteTo writes the output to channels.
func (b *NodeBuilder) WriteTo(channels ...string) *NodeBuilder {
	b.node.Writers = append(b.node.Writers, WriteTo(channels...))
	b.node.writes = append(b.node.writes, channels...)
	return b
}

// WriteConst writes value to ch for every output.
func (b *NodeBuilder) WriteConst(ch string, value any) *NodeBuilder {
	b.node.Writers = append(b.node.Writers, func(w *Writing, _ any) error { return w.Write(ch, value) })
	b.node.writes = append(b.node.writes, ch)
	return b
}

// WriteFunc writes f(output) to ch. A nil result is not written.
func (b *NodeBuilder) WriteFunc(ch string, f func(output any) (any, error)) *NodeBuilder {
	b.node.Writers = append(b.node.Writers, func(w *Writing, output any) error {
		v, err := f(output)
		switch {
		case errors.Is(err, errSkipWrite) || err == nil && v == nil:
			return nil
		case err != nil:
			return err
		}
		return w.Write(ch, v)
	})
	b.node.writes = append(b.node.writes, ch)
	return b
}

// Write appends a Writer.
func (b *NodeBuilder) Write(w Writer) *NodeBuilder {
	b.node.Writers = append(b.node.Writers, w)
	return b
}

// Meta adds tags and metadata shown with the node's tasks.
func (b *NodeBuilder) Meta(metadata map[string]any, tags ...string) *NodeBuilder {
	b.node.Tags = append(b.node.Tags, tags...)
	for k, v := range metadata {
		if b.node.Metadata == nil {
			b.node.Metadata = map[string]any{}
		}
		b.node.Metadata[k] = v
	}
	return b
}

// Retry adds retry policies; the first that wants an error decides about it.
func (b *NodeBuilder) Retry(policies ...RetryPolicy) *NodeBuilder {
	b.node.Retry = append(b.node.Retry, policies...)
	return b
}

// Cache sets the cache policy.
func (b *NodeBuilder) Cache(p CachePolicy) *NodeBuilder {
	b.node.Cache = &p
	return b
}

// Timeout bounds each attempt.
func (b *NodeBuilder) Timeout(p *TimeoutPolicy) *NodeBuilder {
	b.node.Timeout = p
	return b
}

// Subgraphs names the graphs the body runs.
func (b *NodeBuilder) Subgraphs(graphs ...*Graph) *NodeBuilder {
	b.node.Subgraphs = append(b.node.Subgraphs, graphs...)
	return b
}

// Build returns the node, or the first error of its making.
func (b *NodeBuilder) Build() (*Node, error) {
	n := b.node
	switch len(b.body) {
	case 0:
	case 1:
		n.Run = b.body[0]
	default:
		body := slices.Clone(b.body)
		n.Run = func(ctx context.Context, v any) (any, error) {
			var err error
			for _, f := range body {
				if v, err = f(ctx, v); err != nil {
					return nil, err
				}
			}
			return v, nil
		}
	}
	return &n, b.err
}
