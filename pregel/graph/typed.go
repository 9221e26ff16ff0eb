package graph

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/frozen"
)

// NodeFunc is the body of a node of a typed graph. It gets the state, and returns what it
// writes and where to go. state is the function's own; to change a field in place does
// nothing unless the field is also written, and is an error if it is not. What slices, maps
// and pointers in it lead to is shared with other nodes and must not be changed.
type NodeFunc[S any] func(ctx context.Context, state *S) (Update, error)

// StateBuilder builds a typed graph. It collects nodes and edges like Builder, and its first
// error is returned by Compile. A compiled graph does not change with its builder. Not safe
// for concurrent use.
type StateBuilder[S any] struct{ in stateBuilder }

// For begins a typed graph whose state is the struct S. Its exported fields, and those of
// structs that it embeds, are the keys of the state; see the package for tags, reducers and
// types. fields declare the channels of fields whose reducer no tag can name.
func For[S any](fields ...Field) *StateBuilder[S] {
	state, err := newStateType(reflect.TypeFor[S](), fields)
	return &StateBuilder[S]{stateBuilder{state: state, err: err, inputs: map[string]reflect.Type{}, workers: map[string]bool{}, handlers: map[string]body{}}}
}

// body is a function of a typed graph for code without its type parameter: state is a *S. Only that of a Worker
// looks at input, which is the packet.
type body func(ctx context.Context, input, state any) (Update, error)

// bodyOf is nil if f is.
//
//go:noinline
func bodyOf[S any](f NodeFunc[S]) body {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, _, state any) (Update, error) {
		return f(ctx, state.(*S)) //nolint:errcheck // as fresh makes it
	}
}

// Node adds a node.
func (b *StateBuilder[S]) Node(name string, f NodeFunc[S], opts ...NodeOptions) *StateBuilder[S] {
	b.in.node(name, reflect.TypeFor[S](), bodyOf(f), nil, opts)
	return b
}

// Func adds a node that was not written for S, such as Run of a tool.Node. It gets the state as a
// map of its keys, or the input of a packet, and returns what a node of a Builder returns. A key
// that S does not have fails the node, and so does a packet that Send would refuse.
func (b *StateBuilder[S]) Func(name string, f pregel.Func, opts ...NodeOptions) *StateBuilder[S] {
	b.in.untyped(name, f, opts)
	return b
}

// Worker adds a node that runs on packets, each with an input of type A instead of the
// state, and returns what they are sent with. f also gets an S without values, whose
// addresses say what is written. No edge may lead to a Worker.
//
//	count := graph.Worker(b, "count", func(_ context.Context, line string, t *Text) (graph.Update, error) {
//		return graph.Write(&t.Counts, []int{len(strings.Fields(line))}), nil
//	})
//	b.Node("split", func(_ context.Context, t *Text) (graph.Update, error) {
//		return count.Send(strings.Split(t.Body, "\n")...), nil
//	})
func Worker[S, A any](b *StateBuilder[S], name string, f func(ctx context.Context, input A, fields *S) (Update, error), opts ...NodeOptions) Target[A] {
	var run body
	if f != nil {
		run = func(ctx context.Context, input, fields any) (Update, error) {
			in, err := channel.Convert[A](input)
			if err != nil {
				return nil, stateError(ctx, "", err)
			}
			return f(ctx, in, fields.(*S)) //nolint:errcheck // as fresh makes it
		}
	}
	b.in.worker(name, reflect.TypeFor[A](), run, func(input any) error {
		_, err := channel.Convert[A](input)
		return err
	}, opts)
	return Target[A]{name}
}

// OnError adds a handler: it runs when the node fails for good, in the same superstep and
// with the same state; that of a Worker gets a state without values. It gets the error from
// pregel.Task. pregel.AllNodes stands for all nodes without a handler of their own.
func (b *StateBuilder[S]) OnError(node string, f NodeFunc[S]) *StateBuilder[S] {
	b.in.onError(node, bodyOf(f))
	return b
}

// Subgraph adds a graph as a node. The two share the keys that both have: those of the
// state are its input, and those of its result are written. Their types must agree. For a
// graph with a state of another shape call Graph.Run in a node, at pregel.Inside, and name
// the graph in NodeOptions.Subgraphs.
func (b *StateBuilder[S]) Subgraph(name string, g *pregel.Graph, opts ...NodeOptions) *StateBuilder[S] {
	b.in.subgraph(name, g, opts)
	return b
}

// Edge makes to run after from.
func (b *StateBuilder[S]) Edge(from, to string) *StateBuilder[S] { return b.Sequence(from, to) }

// Sequence adds edges from each name to the next.
func (b *StateBuilder[S]) Sequence(names ...string) *StateBuilder[S] { b.in.sequence(names); return b }

// Join makes to run after all of from have run, in whatever supersteps.
func (b *StateBuilder[S]) Join(from []string, to string) *StateBuilder[S] {
	b.in.join(from, to)
	return b
}

// Conditional lets path decide which of ends runs after from. path gets the state with the
// update of from, and returns one of ends.
func (b *StateBuilder[S]) Conditional(from string, path func(ctx context.Context, state *S) (string, error), ends ...string) *StateBuilder[S] {
	var choose func(ctx context.Context, state any) (string, error)
	if path != nil {
		choose = func(ctx context.Context, state any) (string, error) {
			return path(ctx, state.(*S)) //nolint:errcheck // as fresh makes it
		}
	}
	b.in.conditional(from, choose, ends)
	return b
}

// Branch is Conditional that may take several ways at once: path returns Goto, Send, or
// both. ends are the nodes that it may name in either.
func (b *StateBuilder[S]) Branch(from string, path NodeFunc[S], ends ...string) *StateBuilder[S] {
	b.in.branch(from, bodyOf(path), ends)
	return b
}

// Input names the keys a run's input may have; without it, all.
func (b *StateBuilder[S]) Input(keys ...string) *StateBuilder[S] { b.in.input = keys; return b }

// Output names the keys of a run's result; without it, all. Other fields of Result.State
// are zero.
func (b *StateBuilder[S]) Output(keys ...string) *StateBuilder[S] { b.in.output = keys; return b }

// Defaults sets options for nodes that do not set them: Retry, Timeout and Cache.
func (b *StateBuilder[S]) Defaults(o NodeOptions) *StateBuilder[S] { b.in.setDefaults(o); return b }

// OnUnknown lets f see the keys that a checkpoint, or its pending writes, have and that S does not know:
// neither as a field nor as an alias. One that a nested struct does not know is told as "author.nick"; what
// a type reads by itself (serde.ValueDecoder), and what is in an any, is not looked at. They are sorted.
// Each method that reads such a checkpoint calls f, before any node runs and before anything is stored,
// and returns the error that f returns: an f that only notes them returns nil. Without OnUnknown they
// are ignored, but between named versions: see [pregel.OtherVersionError]. f may be called by several goroutines at once.
func (b *StateBuilder[S]) OnUnknown(f func(ctx context.Context, at pregel.Address, keys []string) error) *StateBuilder[S] {
	b.in.unknown = f
	return b
}

// Compile makes the graph. If that is not possible, it returns a pregel.GraphError that says
// why. About a field of S, it names the field.
func (b *StateBuilder[S]) Compile(o Options) (*Graph[S], error) {
	g, err := b.in.compile(o)
	return (*Graph[S])(g), err
}

// stateBuilder is a StateBuilder without its type parameter: the compiler makes its code once, and not again
// for each type of state. It must not inline it into the methods that are made for each.
type stateBuilder struct {
	state    *stateType
	err      error
	steps    []func(b *Builder, t *binding) // done again by each compile
	inputs   map[string]reflect.Type        // what packets to a node hold; nil: anything
	workers  map[string]bool
	handlers map[string]body
	input    []string
	output   []string
	defaults NodeOptions
	unknown  func(ctx context.Context, at pregel.Address, keys []string) error
	paths    int
}

func (b *stateBuilder) failf(node, format string, args ...any) {
	if b.err == nil {
		b.err = &pregel.GraphError{Node: node, Reason: fmt.Sprintf(format, args...)}
	}
}

func (b *stateBuilder) step(f func(b *Builder, t *binding)) { b.steps = append(b.steps, f) }

// add makes a step that adds a node whose input has the type takes: to does so, with o for its options.
func (b *stateBuilder) add(name string, takes reflect.Type, opts []NodeOptions, to func(u *Builder, t *binding, o NodeOptions)) {
	o := lastOf(opts)
	if o.OnError != nil {
		b.failf(name, "NodeOptions.OnError is for the untyped builder; use the method OnError")
	}
	b.inputs[name] = takes
	b.step(func(u *Builder, t *binding) {
		o := o
		o.OnError = t.handler(name, b.handlers[name])
		to(u, t, o)
	})
}

// node adds a node that runs f. check says whether it takes an input; nil asks for a state.
//
//go:noinline
func (b *stateBuilder) node(name string, takes reflect.Type, f body, check func(input any) error, opts []NodeOptions) {
	b.add(name, takes, opts, func(u *Builder, t *binding, o NodeOptions) {
		u.Node(name, t.node(name, f), o)
		if n := u.find(name); n != nil {
			if n.check = check; check == nil {
				n.check = func(input any) error { return t.read(context.Background(), input, t.state.fresh()) }
			}
		}
	})
}

//go:noinline
func (b *stateBuilder) untyped(name string, f pregel.Func, opts []NodeOptions) {
	b.add(name, nil, opts, func(u *Builder, t *binding, o NodeOptions) {
		run := f
		if f != nil {
			run = func(ctx context.Context, input any) (any, error) {
				out, err := f(ctx, input)
				if err != nil {
					return nil, err
				}
				return t.untyped(name, out)
			}
		}
		u.Node(name, run, o)
	})
}

func (b *stateBuilder) worker(name string, takes reflect.Type, f body, check func(input any) error, opts []NodeOptions) {
	if err := packetTypeOf(takes).err; err != nil {
		b.failf(name, "its input %v", err)
	}
	b.workers[name] = true
	b.node(name, takes, f, check, opts)
}

//go:noinline
func (b *stateBuilder) subgraph(name string, g *pregel.Graph, opts []NodeOptions) {
	b.add(name, nil, opts, func(u *Builder, _ *binding, o NodeOptions) { u.Subgraph(name, g, o) })
}

//go:noinline
func (b *stateBuilder) onError(node string, f body) {
	switch {
	case f == nil:
		b.failf(node, "its error handler has no function")
	case b.handlers[node] != nil:
		b.failf(node, "has an error handler already")
	}
	b.handlers[node] = f
}

//go:noinline
func (b *stateBuilder) sequence(names []string) {
	names = slices.Clone(names)
	b.step(func(u *Builder, _ *binding) { u.Sequence(names...) })
}

//go:noinline
func (b *stateBuilder) join(from []string, to string) {
	from = slices.Clone(from)
	b.step(func(u *Builder, _ *binding) { u.Join(from, to) })
}

//go:noinline
func (b *stateBuilder) setDefaults(o NodeOptions) {
	if o.OnError != nil {
		b.failf("", "NodeOptions.OnError is for the untyped builder; use the method OnError")
	}
	b.defaults = o
}

// conditional adds an edge that leads where choose says, which gets a pointer to the state.
//
//go:noinline
func (b *stateBuilder) conditional(from string, choose func(ctx context.Context, state any) (string, error), ends []string) {
	b.path(from, choose == nil, ends, func(ctx context.Context, t *binding, s given) (any, error) {
		to, err := choose(ctx, s.now.Addr().Interface())
		if err == nil {
			err = t.checkUnchanged(from, nil, s)
		}
		if err == nil && t.workers[to] {
			err = &pregel.InvalidUpdateError{Node: from, Reason: fmt.Sprintf("its conditional edge leads to %q, which runs on packets; use Branch and Send", to)}
		}
		return to, err
	})
}

// branch adds an edge that leads where the Update of f says.
//
//go:noinline
func (b *stateBuilder) branch(from string, f body, ends []string) {
	ends = slices.Clone(ends)
	b.path(from, f == nil, ends, func(ctx context.Context, t *binding, s given) (any, error) {
		r, err := t.run(ctx, from, f, nil, s)
		if err != nil {
			return nil, err
		}
		if len(r.pairs)+len(r.outer) > 0 {
			return nil, &pregel.InvalidUpdateError{Node: from, Reason: "its conditional edge writes; an edge only says where to go"}
		}
		for _, to := range r.to {
			if p, ok := to.(pregel.Send); ok && !slices.Contains(ends, p.Node) {
				return nil, &pregel.InvalidUpdateError{Node: from, Reason: fmt.Sprintf("its conditional edge sends to %q, which is none of its ends", p.Node)}
			}
		}
		return r.to, nil
	})
}

// path adds a conditional edge, whose function choose is. isNil says that the caller gave none.
func (b *stateBuilder) path(from string, isNil bool, ends []string, choose func(ctx context.Context, t *binding, s given) (any, error)) {
	switch {
	case isNil:
		b.failf(from, "a conditional edge has no function")
	case len(ends) == 0:
		b.failf(from, "a conditional edge does not say where it may lead")
	}
	b.paths++
	name, ends := fmt.Sprint("condition ", b.paths), slices.Clone(ends)
	b.step(func(u *Builder, t *binding) {
		u.Conditional(from, name, func(ctx context.Context, input any) (any, error) {
			s, err := t.readAtEdge(ctx, input)
			if err != nil {
				return nil, err
			}
			return choose(ctx, t, s)
		}, ends...)
	})
}

func (b *stateBuilder) compile(o Options) (*typedGraph, error) {
	if b.err != nil {
		return nil, b.err
	}
	for name := range b.handlers {
		if _, ok := b.inputs[name]; !ok && name != pregel.AllNodes {
			return nil, &pregel.GraphError{Node: name, Reason: "has an error handler, but there is no such node"}
		}
	}
	t := &binding{state: b.state, nodes: maps.Clone(b.inputs), workers: maps.Clone(b.workers)}
	if o.Saver != nil {
		t.codec = o.Saver.Serializer()
	}
	u := New(b.state.declarations()...)
	u.input, u.output = b.input, b.output
	u.aliases, u.strict, u.unknown, u.inside = b.state.aliases(), true, b.unknown, b.state.lostInside
	for _, step := range b.steps {
		step(u, t)
	}
	defaults := b.defaults
	defaults.OnError = t.handler("", b.handlers[pregel.AllNodes])
	u.Defaults(defaults)
	if err := b.checkWorkers(u); err != nil {
		return nil, err
	}
	g, err := u.Compile(o)
	if err != nil {
		return nil, err
	}
	return &typedGraph{g: g, t: t}, nil
}

// checkWorkers refuses edges to nodes that run on packets.
func (b *stateBuilder) checkWorkers(u *Builder) error {
	to := map[string]string{}
	for _, e := range u.edges {
		to[e.to] = e.from
	}
	for _, j := range u.joins {
		to[j.to] = strings.Join(j.from, ", ")
	}
	for name := range b.workers {
		if from, ok := to[name]; ok {
			return &pregel.GraphError{Node: name, Reason: fmt.Sprintf("runs on packets, but an edge from %s leads to it", from)}
		}
	}
	return nil
}

// node is the body of a node for the engine; nil if f is.
func (t *binding) node(name string, f body) pregel.Func {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, input any) (any, error) {
		s := t.state.fresh()
		if !t.workers[name] {
			if err := t.read(ctx, input, s); err != nil {
				return nil, err
			}
		}
		r, err := t.run(ctx, name, f, input, s)
		if err != nil {
			return nil, err
		}
		return r.output(), nil
	}
}

// given is the state that a function is given, and what that was before. Both are in one piece of memory.
type given struct{ now, before reflect.Value }

func (t *stateType) fresh() given {
	two := reflect.New(t.two).Elem()
	return given{two.Index(0), two.Index(1)}
}

// handler is the body of an error handler for the engine; nil if f is. A packet is no state.
func (t *binding) handler(name string, f body) pregel.Func {
	run := t.node(name, f)
	if run == nil {
		return nil
	}
	return func(ctx context.Context, input any) (any, error) {
		if _, ok := input.(map[string]any); !ok {
			input = map[string]any{}
		}
		return run(ctx, input)
	}
}

// run calls f with the state of s, and reads what it returns.
func (t *binding) run(ctx context.Context, name string, f body, input any, s given) (r resolved, err error) {
	u, err := f(ctx, input, s.now.Addr().Interface())
	if err == nil {
		r, err = t.resolve(name, u, s.now)
	}
	if err == nil {
		err = t.checkUnchanged(name, r.pairs, s)
	}
	return r, err
}

// checkUnchanged refuses a field that was changed in place and is not written.
func (t *binding) checkUnchanged(name string, written pregel.Pairs, s given) error {
	for i := range t.state.fields {
		f := &t.state.fields[i]
		if !frozen.Same(s.now.FieldByIndex(f.index), s.before.FieldByIndex(f.index)) &&
			!slices.ContainsFunc(written, func(p pregel.Pair) bool { return p.Key == f.key }) {
			return &pregel.InvalidUpdateError{Node: name, Reason: fmt.Sprintf(
				"it changed field %s in place, which changes nothing; return graph.Write(&state.%s, …)", f.name, f.name)}
		}
	}
	return nil
}

// read makes s the state that the engine gives a node: the values of channels, or the argument of a packet.
func (t *binding) read(ctx context.Context, input any, s given) error {
	m, ok := input.(map[string]any)
	if !ok {
		return stateError(ctx, "", fmt.Errorf("want a state, got %s", jsontext.Kind(input)))
	}
	err := t.fill(ctx, s.now, m)
	s.before.Set(s.now)
	return err
}

// readAtEdge makes the state of what branchWriter gives a conditional edge of a typed graph.
func (t *binding) readAtEdge(ctx context.Context, input any) (given, error) {
	s := t.state.fresh()
	for _, p := range input.(pregel.Pairs) { //nolint:errcheck // as branchWriter made it
		if err := t.state.fields[t.state.byKey[p.Key]].set(ctx, t.state, s.now, p.Value); err != nil {
			return s, err
		}
	}
	s.before.Set(s.now)
	return s, nil
}

// fill sets the fields of state, an S, that m has.
func (t *binding) fill(ctx context.Context, state reflect.Value, m map[string]any) error {
	for i := range t.state.fields {
		f := &t.state.fields[i]
		if err := f.set(ctx, t.state, state, m[f.key]); err != nil {
			return err
		}
	}
	return nil
}

// set sets the field of state, which is a t. Nil is nothing.
func (f *typedField) set(ctx context.Context, t *stateType, state reflect.Value, v any) error {
	if v == nil {
		return nil
	}
	field := state.FieldByIndex(f.index)
	if reflect.TypeOf(v) == f.typ {
		field.Set(reflect.ValueOf(v))
		return nil
	}
	if err := setField(field, v); err != nil {
		return stateError(ctx, f.key, err).of(t)
	}
	return nil
}
