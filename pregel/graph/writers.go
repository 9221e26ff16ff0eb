package graph

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel"
)

// writer makes the Writer of a node: it writes the updates in the output, and then where to
// go. With langGraph a Command or a Send may lead to a node that the graph does not have, and to nothing then.
func (b *Builder) writer(keys []string, langGraph bool) pregel.Writer {
	known := make(map[string]bool, len(keys))
	for _, k := range keys {
		known[k] = true
	}
	root := b.schema.isRoot()
	return func(w *pregel.Writing, output any) error {
		pairs, err := updates(w.Node(), output, root)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if to, ok := b.aliases[p.Key]; ok && w.Node() == Start { // the input of a run of an older program
				p.Key = to
			}
			if !known[p.Key] {
				continue // LangGraph drops keys the state does not have
			}
			if err := w.Write(p.Key, p.Value); err != nil {
				return err
			}
		}
		return control(w, output, func(node string) bool { return langGraph || b.find(node) != nil })
	}
}

// checkInput makes the Spec.CheckInput that says what the first node will write for an
// input.
func (b *Builder) checkInput() func(input any) (pregel.Pairs, error) {
	keys, root := b.stored(b.input), b.schema.isRoot()
	return func(input any) (pregel.Pairs, error) {
		pairs, err := updates(Start, input, root)
		known := make(pregel.Pairs, 0, len(pairs))
		for _, p := range pairs {
			if to, ok := b.aliases[p.Key]; ok {
				p.Key = to
			}
			if slices.Contains(keys, p.Key) {
				known = append(known, p)
			}
		}
		return known, err
	}
}

// checkKeys refuses values with a key that the state does not have.
func (b *Builder) checkKeys(values any) error {
	pairs, err := updates(Start, values, false)
	if err != nil {
		return nil //nolint:nilerr // what is no update is refused by who takes it
	}
	for _, p := range pairs {
		if !b.schema.has(p.Key) {
			return &pregel.InvalidUpdateError{Reason: fmt.Sprintf("the state has no key %q; it has %q", p.Key, b.schema.keys)}
		}
	}
	return nil
}

// checkSome refuses values that have keys, and none of the state: a mistyped key, or a message in place of a
// map that has it. Beside a key of the state others are ignored.
func (b *Builder) checkSome(values any) error {
	pairs, ok := structPairs(values)
	if !ok {
		pairs, _ = pregel.PairsOf(values)
	}
	if len(pairs) == 0 || slices.ContainsFunc(pairs, func(p pregel.Pair) bool { return b.schema.has(p.Key) || b.aliases[p.Key] != "" }) {
		return nil
	}
	takes := b.schema.keys
	if len(b.input) > 0 { // the others are of the graph's own
		takes = b.input
	}
	if ok {
		return &pregel.InvalidUpdateError{Reason: fmt.Sprintf("no field of %T is a key of the state, which takes %q", values, takes)}
	}
	given := make([]string, len(pairs))
	for i, p := range pairs {
		given[i] = p.Key
	}
	return &pregel.InvalidUpdateError{Reason: fmt.Sprintf("none of %q is a key of the state, which takes %q", given, takes)}
}

// deref is the Send or Command that v points to, or else v itself. A nil pointer is nil: a node
// that returns one has nothing to say.
func deref(v any) any {
	switch x := v.(type) {
	case *pregel.Send:
		if x == nil {
			return nil
		}
		return *x
	case *pregel.Command:
		if x == nil {
			return nil
		}
		return *x
	}
	return v
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}

// updates reads what a node returned as writes to keys.
func updates(node string, output any, root bool) (pregel.Pairs, error) {
	switch x := deref(output).(type) {
	case nil, pregel.Send:
		return nil, nil
	case pregel.Command:
		return commandUpdates(x, root)
	}
	if list, ok := commandList(output); ok {
		var out pregel.Pairs
		for _, e := range list {
			pairs, err := updates(node, e, root)
			if err != nil {
				return nil, err
			}
			out = append(out, pairs...)
		}
		return out, nil
	}
	if root {
		return pregel.Pairs{{Key: pregel.RootKey, Value: output}}, nil
	}
	if pairs, ok := pregel.PairsOf(output); ok {
		return pairs, nil
	}
	if pairs, ok := structPairs(output); ok {
		return pairs, nil
	}
	if node == Start {
		return nil, &pregel.InvalidUpdateError{Reason: fmt.Sprintf("the input is %s; this state takes an object of keys and values", jsontext.Kind(output))}
	}
	return nil, &pregel.InvalidUpdateError{Node: node, Reason: fmt.Sprintf("Expected dict, got %s (INVALID_GRAPH_NODE_RETURN_VALUE)", jsontext.Kind(output))}
}

func commandUpdates(c pregel.Command, root bool) (pregel.Pairs, error) {
	if c.Graph == pregel.Parent || c.Update == nil {
		return nil, nil
	}
	if !root {
		if pairs, ok := structPairs(c.Update); ok {
			return pairs, nil
		}
	}
	return pregel.UpdatePairs(c.Update), nil
}

// commandList is output as a list, if it is a list with a Command in it.
func commandList(output any) ([]any, bool) {
	switch x := output.(type) {
	case []pregel.Command:
		return anys(x), len(x) > 0
	case []any:
		for _, e := range x {
			switch e.(type) {
			case pregel.Command, *pregel.Command:
				return x, true
			}
		}
	}
	return nil, false
}

// control follows the Sends and Commands in a node's output, to nodes that there are.
func control(w *pregel.Writing, output any, there func(node string) bool) error {
	switch x := deref(output).(type) {
	case pregel.Send:
		return goTo(w, x, there)
	case pregel.Command:
		return obey(w, x, there)
	}
	list, _ := commandList(output)
	for _, e := range list {
		if c, ok := deref(e).(pregel.Command); ok {
			if err := obey(w, c, there); err != nil {
				return err
			}
		}
	}
	return nil
}

// obey goes where a Command says, or passes it to the parent graph.
func obey(w *pregel.Writing, c pregel.Command, there func(string) bool) error {
	if c.Graph == pregel.Parent {
		return &pregel.ParentCommandError{Command: c}
	}
	return goTo(w, c.Goto, there)
}

// destinations reads where to go: names, Sends, or a list of them.
func destinations(v any) []any {
	switch x := v.(type) {
	case []any:
		return x
	case []string:
		return anys(x)
	case []pregel.Send:
		return anys(x)
	}
	return []any{v}
}

func goTo(w *pregel.Writing, v any, there func(node string) bool) error {
	if v == nil {
		return nil
	}
	for _, d := range destinations(v) {
		switch x := deref(d).(type) {
		case pregel.Send:
			if !there(x.Node) {
				return &pregel.InvalidUpdateError{Node: w.Node(), Reason: fmt.Sprintf("sends to %q, which is no node", x.Node)}
			}
			w.Send(x)
		case string:
			if x == End || x == "" {
				continue
			}
			if !there(x) {
				return &pregel.InvalidUpdateError{Node: w.Node(), Reason: fmt.Sprintf("goes to %q, which is no node", x)}
			}
			if err := w.Write(branchTo+x, nil); err != nil {
				return err
			}
		default:
			return &pregel.InvalidUpdateError{Node: w.Node(), Reason: fmt.Sprintf("goto: want names and Sends, got %s", jsontext.Kind(d))}
		}
	}
	return nil
}

// branchWriter makes the Writer of a conditional edge.
func (b *Builder) branchWriter(br branch) pregel.Writer {
	keys := b.schema.keys
	n := b.find(br.from)
	switch {
	case br.reads != nil:
		keys = br.reads
	case n != nil && n.opts.Reads != nil:
		keys = n.opts.Reads
	}
	reads := b.schema.shown(keys)
	return func(w *pregel.Writing, output any) error {
		var state any
		var err error
		if b.strict { // a typed path, which needs no map
			state, err = w.ReadPairs(keys...)
		} else {
			state, err = w.Read(reads)
		}
		if err != nil {
			return err
		}
		if m, ok := state.(map[string]any); ok && br.reads == nil {
			if pairs, isMap := pregel.PairsOf(output); isMap {
				for _, p := range pairs { // keys the state does not have pass through
					if _, has := m[p.Key]; !has {
						m[p.Key] = p.Value
					}
				}
			}
		}
		result, err := br.path(w.Context(), state)
		if err != nil {
			return err
		}
		for _, d := range destinations(result) {
			if err := br.take(w, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// take writes one destination of a conditional edge.
func (br branch) take(w *pregel.Writing, d any) error {
	d = deref(d)
	if s, ok := d.(pregel.Send); ok {
		if s.Node == End {
			return &pregel.InvalidUpdateError{Node: w.Node(), Reason: "Cannot send a packet to the END node"}
		}
		w.Send(s)
		return nil
	}
	label := fmt.Sprint(d)
	if d == nil {
		label = ""
	}
	to := label
	if br.ends != nil {
		var ok bool
		if to, ok = br.ends[label]; !ok {
			return &pregel.InvalidUpdateError{Node: w.Node(), Reason: fmt.Sprintf("branch %q returned %q, which leads nowhere", br.name, label)}
		}
	}
	switch to {
	case "", Start:
		return &pregel.InvalidUpdateError{Node: w.Node(), Reason: "Branch did not return a valid destination"}
	case End:
		return nil
	}
	return w.Write(branchTo+to, nil)
}
