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
type StateBuilder[S any] struct {
	state    *stateType
	err      error
	steps    []func(b *Builder, t *binding[S]) // done again by each Compile
	inputs   map[string]reflect.Type           // what packets to a node hold; nil: anything
	workers  map[string]bool
	handlers map[string]NodeFunc[S]
	defaults NodeOptions
	unknown  func(ctx context.Context, at pregel.Address, keys []string) error
	paths    int
}

// For begins a typed graph whose state is the struct S. Its exported fields, and those of
// structs that it embeds, are the keys of the state; see the package for tags, reducers and
// types. fields declare the channels of fields whose reducer no tag can name.
func For[S any](fields ...Field) *StateBuilder[S] {
	state, err := newStateType(reflect.TypeFor[S](), fields)
	return &StateBuilder[S]{state: state, err: err, inputs: map[string]reflect.Type{}, workers: map[string]bool{}, handlers: map[string]NodeFunc[S]{}}
}

func (b *StateBuilder[S]) failf(node, format string, args ...any) *StateBuilder[S] {
	if b.err == nil {
		b.err = &pregel.GraphError{Node: node, Reason: fmt.Sprintf(format, args...)}
	}
	return b
}

func (b *StateBuilder[S]) step(f func(b *Builder, t *binding[S])) *StateBuilder[S] {
	b.steps = append(b.steps, f)
	return b
}

// Node adds a node.
func (b *StateBuilder[S]) Node(name string, f NodeFunc[S], opts ...NodeOptions) *StateBuilder[S] {
	return b.node(name, reflect.TypeFor[S](), f == nil, opts, func(t *binding[S]) pregel.Func { return t.node(name, f) },
		func(t *binding[S]) func(any) error {
			return func(input any) error {
				_, err := t.read(context.Background(), input)
				return err
			}
		})
}

// node adds a node whose input has the type takes. body makes its function once the state is bound to
// channels; isNil says that the caller gave none. check, which may be nil, makes the function that
// says whether the node takes an input.
func (b *StateBuilder[S]) node(name string, takes reflect.Type, isNil bool, opts []NodeOptions, body func(t *binding[S]) pregel.Func,
	check func(t *binding[S]) func(input any) error) *StateBuilder[S] {
	if lastOf(opts).OnError != nil {
		return b.failf(name, "NodeOptions.OnError is for the untyped builder; use the method OnError")
	}
	b.inputs[name] = takes
	return b.step(func(u *Builder, t *binding[S]) {
		var run pregel.Func
		if !isNil {
			run = body(t)
		}
		o := lastOf(opts)
		o.OnError = t.handler(name, b.handlers[name])
		u.Node(name, run, o)
		if n := u.find(name); n != nil && check != nil {
			n.check = check(t)
		}
	})
}

// Func adds a node that was not written for S, such as Run of a tool.Node. It gets the state as a
// map of its keys, or the input of a packet, and returns what a node of a Builder returns. A key
// that S does not have fails the node, and so does a packet that Send would refuse.
func (b *StateBuilder[S]) Func(name string, f pregel.Func, opts ...NodeOptions) *StateBuilder[S] {
	return b.node(name, nil, f == nil, opts, func(t *binding[S]) pregel.Func {
		return func(ctx context.Context, input any) (any, error) {
			out, err := f(ctx, input)
			if err != nil {
				return nil, err
			}
			return t.untyped(name, out)
		}
	}, nil)
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
	if err := packetTypeOf(reflect.TypeFor[A]()).err; err != nil {
		b.failf(name, "its input %v", err)
	}
	b.workers[name] = true
	b.node(name, reflect.TypeFor[A](), f == nil, opts, func(t *binding[S]) pregel.Func {
		return func(ctx context.Context, input any) (any, error) {
			in, err := channel.Convert[A](input)
			if err != nil {
				return nil, stateError(ctx, "", err)
			}
			fields := new(given[S])
			u, err := f(ctx, in, &fields.now)
			if err != nil {
				return nil, err
			}
			return t.output(name, u, fields)
		}
	}, func(*binding[S]) func(any) error {
		return func(input any) error {
			_, err := channel.Convert[A](input)
			return err
		}
	})
	return Target[A]{name}
}

// OnError adds a handler: it runs when the node fails for good, in the same superstep and
// with the same state; that of a Worker gets a state without values. It gets the error from
// pregel.Task. pregel.AllNodes stands for all nodes without a handler of their own.
func (b *StateBuilder[S]) OnError(node string, f NodeFunc[S]) *StateBuilder[S] {
	switch {
	case f == nil:
		return b.failf(node, "its error handler has no function")
	case b.handlers[node] != nil:
		return b.failf(node, "has an error handler already")
	}
	b.handlers[node] = f
	return b
}

// Subgraph adds a graph as a node. The two share the keys that both have: those of the
// state are its input, and those of its result are written. Their types must agree. For a
// graph with a state of another shape call Graph.Run in a node, at pregel.Inside, and name
// the graph in NodeOptions.Subgraphs.
func (b *StateBuilder[S]) Subgraph(name string, g *pregel.Graph, opts ...NodeOptions) *StateBuilder[S] {
	o := lastOf(opts)
	if o.OnError != nil {
		return b.failf(name, "NodeOptions.OnError is for the untyped builder; use the method OnError")
	}
	b.inputs[name] = nil
	return b.step(func(u *Builder, t *binding[S]) {
		o := o
		o.OnError = t.handler(name, b.handlers[name])
		u.Subgraph(name, g, o)
	})
}

// Edge makes to run after from.
func (b *StateBuilder[S]) Edge(from, to string) *StateBuilder[S] {
	return b.step(func(u *Builder, _ *binding[S]) { u.Edge(from, to) })
}

// Sequence adds edges from each name to the next.
func (b *StateBuilder[S]) Sequence(names ...string) *StateBuilder[S] {
	names = slices.Clone(names)
	return b.step(func(u *Builder, _ *binding[S]) { u.Sequence(names...) })
}

// Join makes to run after all of from have run, in whatever supersteps.
func (b *StateBuilder[S]) Join(from []string, to string) *StateBuilder[S] {
	from = slices.Clone(from)
	return b.step(func(u *Builder, _ *binding[S]) { u.Join(from, to) })
}

// Conditional lets path decide which of ends runs after from. path gets the state with the
// update of from, and returns one of ends.
func (b *StateBuilder[S]) Conditional(from string, path func(ctx context.Context, state *S) (string, error), ends ...string) *StateBuilder[S] {
	if path == nil {
		return b.failf(from, "a conditional edge has no function")
	}
	return b.branch(from, ends, func(t *binding[S]) Path {
		return func(ctx context.Context, input any) (any, error) {
			s, err := t.readAtEdge(ctx, input)
			if err != nil {
				return nil, err
			}
			to, err := path(ctx, &s.now)
			if err == nil {
				err = t.checkUnchanged(from, nil, s)
			}
			if err == nil && t.workers[to] {
				err = &pregel.InvalidUpdateError{Node: from, Reason: fmt.Sprintf("its conditional edge leads to %q, which runs on packets; use Branch and Send", to)}
			}
			return to, err
		}
	})
}

// Branch is Conditional that may take several ways at once: path returns Goto, Send, or
// both. ends are the nodes that it may name in either.
func (b *StateBuilder[S]) Branch(from string, path NodeFunc[S], ends ...string) *StateBuilder[S] {
	if path == nil {
		return b.failf(from, "a conditional edge has no function")
	}
	ends = slices.Clone(ends)
	return b.branch(from, ends, func(t *binding[S]) Path { return t.path(from, path, ends) })
}

func (b *StateBuilder[S]) branch(from string, ends []string, path func(t *binding[S]) Path) *StateBuilder[S] {
	if len(ends) == 0 {
		return b.failf(from, "a conditional edge does not say where it may lead")
	}
	b.paths++
	name, ends := fmt.Sprint("condition ", b.paths), slices.Clone(ends)
	return b.step(func(u *Builder, t *binding[S]) { u.Conditional(from, name, path(t), ends...) })
}

// Input names the keys a run's input may have; without it, all.
func (b *StateBuilder[S]) Input(keys ...string) *StateBuilder[S] {
	return b.step(func(u *Builder, _ *binding[S]) { u.Input(keys...) })
}

// Output names the keys of a run's result; without it, all. Other fields of Result.State
// are zero.
func (b *StateBuilder[S]) Output(keys ...string) *StateBuilder[S] {
	return b.step(func(u *Builder, _ *binding[S]) { u.Output(keys...) })
}

// Defaults sets options for nodes that do not set them: Retry, Timeout and Cache.
func (b *StateBuilder[S]) Defaults(o NodeOptions) *StateBuilder[S] {
	if o.OnError != nil {
		return b.failf("", "NodeOptions.OnError is for the untyped builder; use the method OnError")
	}
	b.defaults = o
	return b
}

// OnUnknown lets f see the keys that a checkpoint, or its pending writes, have and that S does not know:
// neither as a field nor as an alias. They are sorted, and those of nested structs are not among them.
// Each method that reads such a checkpoint calls f, before any node runs and before anything is stored,
// and returns the error that f returns: an f that only notes them returns nil. Without OnUnknown they
// are ignored. f may be called by several goroutines at once.
func (b *StateBuilder[S]) OnUnknown(f func(ctx context.Context, at pregel.Address, keys []string) error) *StateBuilder[S] {
	b.unknown = f
	return b
}

// Compile makes the graph. If that is not possible, it returns a pregel.GraphError that says
// why. About a field of S, it names the field.
func (b *StateBuilder[S]) Compile(o Options) (*Graph[S], error) {
	if b.err != nil {
		return nil, b.err
	}
	for name := range b.handlers {
		if _, ok := b.inputs[name]; !ok && name != pregel.AllNodes {
			return nil, &pregel.GraphError{Node: name, Reason: "has an error handler, but there is no such node"}
		}
	}
	t := &binding[S]{state: b.state, nodes: maps.Clone(b.inputs), workers: maps.Clone(b.workers)}
	if o.Saver != nil {
		t.codec = o.Saver.Serializer()
	}
	u := New(b.state.declarations()...)
	u.aliases, u.strict, u.unknown = b.state.aliases(), true, b.unknown
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
	return &Graph[S]{g: g, t: t}, nil
}

// checkWorkers refuses edges to nodes that run on packets.
func (b *StateBuilder[S]) checkWorkers(u *Builder) error {
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

// node is the body of a node for the engine.
func (t *binding[S]) node(name string, f NodeFunc[S]) pregel.Func {
	return func(ctx context.Context, input any) (any, error) {
		s, err := t.read(ctx, input)
		if err != nil {
			return nil, err
		}
		u, err := f(ctx, &s.now)
		if err != nil {
			return nil, err
		}
		return t.output(name, u, s)
	}
}

// given is the state that a function is given, and what that was before.
type given[S any] struct{ now, before S }

// handler is the body of an error handler for the engine; nil if f is. A packet is no state.
func (t *binding[S]) handler(name string, f NodeFunc[S]) pregel.Func {
	if f == nil {
		return nil
	}
	run := t.node(name, f)
	return func(ctx context.Context, input any) (any, error) {
		if _, ok := input.(map[string]any); !ok || t.workers[name] {
			input = map[string]any{}
		}
		return run(ctx, input)
	}
}

// output is what a node returns to the engine.
func (t *binding[S]) output(name string, u Update, s *given[S]) (any, error) {
	r, err := t.resolve(name, u, &s.now)
	if err != nil {
		return nil, err
	}
	if err := t.checkUnchanged(name, r.pairs, s); err != nil {
		return nil, err
	}
	return r.output(), nil
}

// checkUnchanged refuses a field that was changed in place and is not written.
func (t *binding[S]) checkUnchanged(name string, written pregel.Pairs, s *given[S]) error {
	now, old := reflect.ValueOf(&s.now).Elem(), reflect.ValueOf(&s.before).Elem()
	for i := range t.state.fields {
		f := &t.state.fields[i]
		if frozen.Same(now.FieldByIndex(f.index), old.FieldByIndex(f.index)) {
			continue
		}
		if !slices.ContainsFunc(written, func(p pregel.Pair) bool { return p.Key == f.key }) {
			return &pregel.InvalidUpdateError{Node: name, Reason: fmt.Sprintf(
				"it changed field %s in place, which changes nothing; return graph.Write(&state.%s, …)", f.name, f.name)}
		}
	}
	return nil
}

// path is the function of a conditional edge for the engine.
func (t *binding[S]) path(from string, f NodeFunc[S], ends []string) Path {
	return func(ctx context.Context, state any) (any, error) {
		s, err := t.readAtEdge(ctx, state)
		if err != nil {
			return nil, err
		}
		u, err := f(ctx, &s.now)
		if err != nil {
			return nil, err
		}
		r, err := t.resolve(from, u, &s.now)
		if err == nil {
			err = t.checkUnchanged(from, r.pairs, s)
		}
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
	}
}

// read makes the state of what the engine gives a node: the values of channels, or the
// argument of a packet.
func (t *binding[S]) read(ctx context.Context, input any) (*given[S], error) {
	m, ok := input.(map[string]any)
	if !ok {
		return nil, stateError(ctx, "", fmt.Errorf("want a state, got %s", jsontext.Kind(input)))
	}
	s := new(given[S])
	err := t.fill(ctx, &s.now, m)
	s.before = s.now
	return s, err
}

// readAtEdge makes the state of what branchWriter gives a conditional edge of a typed graph.
func (t *binding[S]) readAtEdge(ctx context.Context, input any) (*given[S], error) {
	s := new(given[S])
	rv := reflect.ValueOf(&s.now).Elem()
	for _, p := range input.(pregel.Pairs) { //nolint:errcheck // as branchWriter made it
		if err := t.state.fields[t.state.byKey[p.Key]].set(ctx, t.state, rv, p.Value); err != nil {
			return nil, err
		}
	}
	s.before = s.now
	return s, nil
}

// fill sets the fields of s that m has.
func (t *binding[S]) fill(ctx context.Context, s *S, m map[string]any) error {
	rv := reflect.ValueOf(s).Elem()
	for i := range t.state.fields {
		f := &t.state.fields[i]
		if err := f.set(ctx, t.state, rv, m[f.key]); err != nil {
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
