package graph

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// Update is what a node of a typed graph returns: what it writes to fields of the state, and
// where to go next. Nil does neither. The functions Write, WriteAs, Overwrite, Goto, Send
// and Parent, and Target.Send, make Updates of one part; And joins them.
type Update []change

// change is one part of an Update.
type change struct {
	kind  changeKind
	field any // a pointer to a field of the state
	// value is what is written. Else it is the name of a node, a pregel.Send, or the
	// pregel.Command for the graph around, or why there is none.
	value any
}

type changeKind int

const (
	changeWrite changeKind = iota
	changeOverwrite
	changeGoto
	changeSend
	changeOuter
)

// Write writes value to a field of the state: a pointer into the struct that the function
// was given. The field's reducer says what becomes of it. Without one, value replaces what
// the field holds, also if value is zero.
//
//	return graph.Write(&letter.Text, []string{"Dear " + letter.To}), nil
func Write[T any](field *T, value T) Update { return Update{{field: field, value: value}} }

// WriteAs is Write for a reducer whose writes have another type than the field.
func WriteAs[T, W any](field *T, value W) Update { return Update{{field: field, value: value}} }

// Overwrite replaces the value of a field that has a reducer.
func Overwrite[T any](field *T, value T) Update {
	return Update{{kind: changeOverwrite, field: field, value: value}}
}

// Goto runs nodes in the next superstep, besides those that the node's edges lead to. End
// leads nowhere. A name that is no node fails the node.
func Goto(nodes ...string) Update {
	var u Update
	for _, name := range nodes {
		u = append(u, change{kind: changeGoto, value: name})
	}
	return u
}

// Send runs a node in the next superstep with an input of its own: a state, or a map with
// some of its keys, if node was made by StateBuilder.Node, or what the function of a Worker
// takes. Input of another type fails the node that sends. Target.Send is checked by the
// compiler.
func Send(node string, input any) Update {
	return Update{{kind: changeSend, value: pregel.Send{Node: node, Arg: input}}}
}

// Parent is for the graph around the one that the node belongs to, whose state is P. f
// names what to write to it and where to go in it. f gets a P without values, whose
// addresses count alone.
func Parent[P any](f func(fields *P) Update) Update {
	t, err := newStateType(reflect.TypeFor[P](), nil)
	if err != nil {
		return Update{{kind: changeOuter, value: err}}
	}
	b := binding{state: t}
	fields := new(P)
	out, err := b.resolve("", f(fields), reflect.ValueOf(fields).Elem())
	if err == nil && len(out.outer) > 0 {
		err = &pregel.InvalidUpdateError{Reason: "a Parent inside a Parent"}
	}
	if err != nil {
		return Update{{kind: changeOuter, value: err}}
	}
	c := out.command()
	c.Graph = pregel.Parent
	return Update{{kind: changeOuter, value: c}}
}

// And is u with what more has.
func (u Update) And(more ...Update) Update {
	n := len(u)
	for _, m := range more {
		n += len(m)
	}
	out := append(make(Update, 0, n), u...)
	for _, m := range more {
		out = append(out, m...)
	}
	return out
}

// Goto is u, and runs nodes next; see the function Goto.
func (u Update) Goto(nodes ...string) Update { return u.And(Goto(nodes...)) }

// Target is a node that runs on packets of type A; Worker makes it.
type Target[A any] struct{ name string }

// Name is the node's name.
func (t Target[A]) Name() string { return t.name }

// Send runs the node in the next superstep, once for each of inputs.
func (t Target[A]) Send(inputs ...A) Update {
	var u Update
	for _, in := range inputs {
		u = append(u, Send(t.name, in)...)
	}
	return u
}

// resolved is an Update in the terms of the engine.
type resolved struct {
	pairs pregel.Pairs
	to    []any // names and packets
	outer []pregel.Command
}

// command is r without what is for the graph around.
func (r resolved) command() pregel.Command {
	c := pregel.Command{}
	if len(r.pairs) > 0 {
		c.Update = r.pairs
	}
	if len(r.to) > 0 {
		c.Goto = r.to
	}
	return c
}

// output is r as a node returns it.
func (r resolved) output() any {
	switch {
	case len(r.outer) > 0:
		list := []any{r.command()}
		for _, c := range r.outer {
			list = append(list, c)
		}
		return list
	case len(r.to) > 0:
		return r.command()
	case len(r.pairs) > 0:
		return r.pairs
	}
	return nil
}

// binding is a state type S within a compiled graph. It has no type parameter, since the compiler would
// make all its code again for each S: a state that its methods take is a reflect.Value.
type binding struct {
	state *stateType
	// nodes are the names of all nodes, with the type of the packets that they take: the
	// state's for a node, nil for one that takes any.
	nodes map[string]reflect.Type
	// workers take packets only.
	workers map[string]bool
	codec   serde.Serializer // nil: the default one
}

// resolve reads u, which names fields of state. It refuses what would be lost: a pointer to
// anything else, a node that does not exist, and a field that was changed in place and not
// written.
func (b *binding) resolve(node string, u Update, state reflect.Value) (r resolved, err error) {
	fail := func(format string, args ...any) error {
		return &pregel.InvalidUpdateError{Node: node, Reason: fmt.Sprintf(format, args...)}
	}
	for i := range u {
		c := &u[i]
		switch c.kind {
		case changeWrite, changeOverwrite:
			if r.pairs == nil {
				r.pairs = make(pregel.Pairs, 0, len(u))
			}
			f, err := b.fieldAt(c.field, state)
			if err != nil {
				return r, fail("%v", err)
			}
			v, err := b.value(f, c)
			if err != nil {
				return r, &pregel.InvalidUpdateError{Node: node, Reason: "field " + f.name, Err: err}
			}
			r.pairs = append(r.pairs, pregel.Pair{Key: f.key, Value: v})
		case changeGoto:
			to := c.value.(string) //nolint:errcheck // as Goto made it
			if _, known := b.nodes[to]; b.nodes != nil && !known && to != End {
				return r, fail("it goes to %q, which is no node", to)
			}
			if b.workers[to] {
				return r, fail("it goes to %q, which runs on packets; use Send", to)
			}
			r.to = append(r.to, to)
		case changeSend:
			p, err := b.packet(c.value.(pregel.Send))
			if err != nil {
				return r, fail("%v", err)
			}
			r.to = append(r.to, p)
		case changeOuter:
			outer, ok := c.value.(pregel.Command)
			if !ok {
				return r, fail("for the graph around: %v", c.value)
			}
			r.outer = append(r.outer, outer)
		}
	}
	return r, nil
}

// untyped is what an untyped node returned, with its updates and packets as resolve makes them.
func (b *binding) untyped(node string, output any) (any, error) {
	switch x := deref(output).(type) {
	case nil:
		return nil, nil
	case pregel.Send:
		return b.untypedSend(node, x)
	case pregel.Command:
		if x.Graph == pregel.Parent {
			return x, nil
		}
		var err error
		if x.Goto, err = b.untypedGoto(node, x.Goto); err != nil || x.Update == nil {
			return x, err
		}
		pairs, err := commandUpdates(x, false)
		if err == nil {
			x.Update, err = b.untypedPairs(node, pairs)
		}
		return x, err
	}
	if list, ok := commandList(output); ok {
		out := make([]any, len(list))
		for i, e := range list {
			var err error
			if out[i], err = b.untyped(node, e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	pairs, err := updates(node, output, false)
	if err != nil {
		return nil, err
	}
	return b.untypedPairs(node, pairs)
}

func (b *binding) untypedPairs(node string, pairs pregel.Pairs) (pregel.Pairs, error) {
	out := make(pregel.Pairs, len(pairs))
	for i, p := range pairs {
		at, ok := b.state.byKey[p.Key]
		if !ok || b.state.fields[at].channel == nil {
			return nil, &pregel.InvalidUpdateError{Node: node, Reason: fmt.Sprintf("it writes %q, which is no field of a %v that can be written", p.Key, b.state.typ)}
		}
		f := &b.state.fields[at]
		if _, whole := serde.AsOverwrite(p.Value); !whole {
			var err error
			if p.Value, err = b.value(f, &change{value: p.Value}); err != nil {
				return nil, &pregel.InvalidUpdateError{Node: node, Reason: "field " + f.name, Err: err}
			}
		}
		out[i] = p
	}
	return out, nil
}

func (b *binding) untypedGoto(node string, to any) (any, error) {
	if to == nil {
		return nil, nil
	}
	out := slices.Clone(destinations(to))
	for i, d := range out {
		if p, ok := deref(d).(pregel.Send); ok {
			var err error
			if out[i], err = b.untypedSend(node, p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// untypedSend is packet. An input that is plain data is made what a Worker takes.
func (b *binding) untypedSend(node string, p pregel.Send) (pregel.Send, error) {
	if want := b.nodes[p.Node]; b.workers[p.Node] && p.Arg != nil && !reflect.TypeOf(p.Arg).AssignableTo(want) {
		in := reflect.New(want)
		if channel.ConvertInto(in.Interface(), p.Arg) == nil {
			p.Arg = in.Elem().Interface()
		}
	}
	p, err := b.packet(p)
	if err != nil {
		return p, &pregel.InvalidUpdateError{Node: node, Reason: err.Error()}
	}
	return p, nil
}

// fieldAt finds the field of state that p points to.
func (b *binding) fieldAt(p any, state reflect.Value) (*typedField, error) {
	v := reflect.ValueOf(p)
	offset := v.Pointer() - state.UnsafeAddr()
	for i := range b.state.fields {
		f := &b.state.fields[i]
		if f.offset != offset || f.pointer != v.Type() || v.IsNil() {
			continue
		}
		if f.channel == nil {
			return nil, fmt.Errorf("field %s is computed and cannot be written", f.name)
		}
		return f, nil
	}
	return nil, fmt.Errorf("a %v was written that points to no field of the %v that the function was given", v.Type(), b.state.typ)
}

// value is what a change writes to f.
func (b *binding) value(f *typedField, c *change) (any, error) {
	v, t := c.value, f.typ
	if v != nil && !reflect.TypeOf(v).AssignableTo(t) { // WriteAs
		t = reflect.TypeOf(v)
	}
	if f.loses || t != f.typ {
		var err error
		if v, err = again(b.codec, v, t); err != nil {
			return nil, err
		}
	}
	if c.kind == changeOverwrite && f.folds {
		return pregel.Overwrite{Value: v}, nil
	}
	return v, nil
}

// packet checks the input of a packet.
func (b *binding) packet(p pregel.Send) (pregel.Send, error) {
	want, known := b.nodes[p.Node]
	if b.nodes == nil {
		return p, nil
	}
	if !known {
		return p, fmt.Errorf("it sends to %q, which is no node", p.Node)
	}
	state := reflect.ValueOf(p.Arg)
	if p.Arg != nil && state.Type() == reflect.PointerTo(b.state.typ) && !state.IsNil() {
		state = state.Elem()
		p.Arg = state.Interface()
	}
	have := reflect.TypeOf(p.Arg)
	if m, ok := p.Arg.(map[string]any); ok && want == b.state.typ {
		for key := range m {
			if _, known := b.state.byKey[key]; !known {
				return p, fmt.Errorf("it sends %q to %q, which is no field of a %v", key, p.Node, want)
			}
		}
		return p, nil
	}
	switch {
	case want == nil:
		return p, nil
	case have == nil || !have.AssignableTo(want):
		return p, fmt.Errorf("it sends %s to %q, which takes %s", jsontext.Kind(p.Arg), p.Node, jsontext.KindOf(want))
	}
	var err error
	if have == b.state.typ && !b.workers[p.Node] {
		p.Arg, err = b.values(state, false)
		return p, err
	}
	kind := packetTypeOf(want)
	if kind.err != nil {
		return p, fmt.Errorf("the input of %q %w", p.Node, kind.err)
	}
	if kind.loses {
		p.Arg, err = again(b.codec, p.Arg, want)
	}
	return p, err
}

// values are the fields of state, an S, by their keys, without those that are zero if written is set.
func (b *binding) values(state reflect.Value, written bool) (map[string]any, error) {
	out := make(map[string]any, len(b.state.fields))
	for i := range b.state.fields {
		f := &b.state.fields[i]
		v := state.FieldByIndex(f.index)
		if f.channel == nil || written && v.IsZero() {
			continue
		}
		x, err := b.value(f, &change{value: v.Interface()})
		if err != nil {
			return nil, &pregel.InvalidUpdateError{Reason: "field " + f.name, Err: err}
		}
		out[f.key] = x
	}
	return out, nil
}

// again is v as it is read back, after a restart, as a t.
func again(codec serde.Serializer, v any, t reflect.Type) (any, error) {
	if v == nil {
		return nil, nil
	}
	if codec == nil {
		codec = serde.Default()
	}
	typed, err := codec.Encode(v)
	if err != nil {
		return nil, err
	}
	out := reflect.New(t)
	if err := codec.DecodeInto(typed, out.Interface()); err != nil {
		return nil, err
	}
	return out.Elem().Interface(), nil
}

// packetTypes caches what storable says of the types of packets.
var packetTypes sync.Map

type packetType struct {
	loses bool
	err   error
}

func packetTypeOf(t reflect.Type) packetType {
	if p, ok := packetTypes.Load(t); ok {
		return p.(packetType) //nolint:errcheck // holds nothing else
	}
	loses, err := storable(t, "", map[reflect.Type]bool{})
	p := packetType{loses, err}
	packetTypes.Store(t, p)
	return p
}
