package pregel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel/channel"
)

// refuseUnknown refuses values from outside with keys that the graph does not know, and a Command whose update has
// such keys, or which goes to a node that the graph does not have.
func (g *Graph) refuseUnknown(values any) error {
	if g.opts.LangGraph {
		return nil
	}
	if cmd, ok := commandOf(values); ok {
		if err := g.refuseGotos(cmd); err != nil {
			return err
		}
		values = cmd.Update
	}
	if g.spec.CheckKeys == nil || values == nil {
		return nil
	}
	return g.spec.CheckKeys(values)
}

// refuseGotos refuses a Command that goes, or sends a packet, to a node that the graph does not have. What is for
// the graph around is not looked at.
func (g *Graph) refuseGotos(cmd Command) error {
	if cmd.Graph == Parent {
		return nil
	}
	gotos, err := gotoList(cmd.Goto)
	if err != nil {
		return err
	}
	for _, to := range gotos {
		how, name := "goes", to
		if s, ok := sendOf(to); ok {
			how, name = "sends", s.Node
		}
		if name != End && g.nodes[name.(string)] == nil {
			return &InvalidUpdateError{Reason: fmt.Sprintf("the Command %s to %q, which is no node", how, name)}
		}
	}
	return nil
}

// inputWrites maps an input to writes to channels. It refuses values that the channels cannot take.
func (g *Graph) inputWrites(set *channelSet, input any) ([]write, error) {
	writes, err := g.inputByChannel(input)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	values := map[string][]any{}
	for _, w := range writes {
		values[w.channel] = append(values[w.channel], w.value)
	}
	if g.spec.CheckInput != nil {
		pairs, err := g.spec.CheckInput(writes[0].value)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			values[p.Key] = append(values[p.Key], p.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		ch, ok := set.get(name)
		if !ok {
			continue
		}
		if err := channel.Check(ch, values[name]); err != nil {
			var ue *channel.UpdateError
			if errors.As(err, &ue) {
				ue.Nodes = []string{Input}
			}
			return nil, err
		}
	}
	return writes, nil
}

func (g *Graph) inputByChannel(input any) ([]write, error) {
	if c, ok := input.(*Command); input == nil || ok && c == nil {
		return nil, nil
	}
	if g.input.Single {
		if pairs, ok := input.(Pairs); ok { // it would be read back as plain data
			m := make(map[string]any, len(pairs))
			for _, p := range pairs {
				m[p.Key] = p.Value
			}
			input = m
		}
		return []write{{g.input.Names[0], input}}, nil
	}
	pairs, ok := PairsOf(input)
	if !ok {
		return nil, &InvalidUpdateError{Node: Input, Reason: fmt.Sprintf("the input has the channels %v: want an object, got %s", g.input.Names,
			jsontext.Kind(input))}
	}
	var out []write
	for _, p := range pairs {
		if g.input.has(p.Key) {
			out = append(out, write{p.Key, p.Value})
		} else {
			g.env.Logger.Warn("ignored an unknown input", "graph", g.opts.Name, "channel", p.Key)
		}
	}
	return out, nil
}

// commandWrites returns the writes of a Command that is given as input.
func commandWrites(cmd Command) ([]write, error) {
	if cmd.Graph == Parent {
		return nil, &InvalidUpdateError{Reason: "There is no parent graph"}
	}
	var out []write
	gotos, err := gotoList(cmd.Goto)
	if err != nil {
		return nil, err
	}
	for _, g := range gotos {
		if s, ok := sendOf(g); ok {
			out = append(out, write{chTasks, s})
		} else {
			out = append(out, write{branchPrefix + g.(string), Start})
		}
	}
	if cmd.Resume != nil {
		out = append(out, write{chResume, cmd.Resume})
	}
	for _, p := range UpdatePairs(cmd.Update) {
		out = append(out, write{p.Key, p.Value})
	}
	return out, nil
}

// gotoList reads Command.Goto: strings and Sends.
func gotoList(v any) ([]any, error) {
	var list []any
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		if x == "" {
			return nil, nil
		}
		return []any{x}, nil
	case []any:
		list = x
	case []string:
		list = anys(x)
	case []Send:
		list = anys(x)
	default:
		list = []any{v}
	}
	for _, g := range list {
		if _, ok := sendOf(g); ok {
			continue
		}
		if _, ok := g.(string); !ok {
			return nil, &InvalidUpdateError{Reason: fmt.Sprintf("In Command.goto, expected Send/str, got %s", jsontext.Kind(g))}
		}
	}
	return list, nil
}

// UpdatePairs reads Command.Update as writes to keys of the state: pairs, a map, or one
// value for a state without keys.
func UpdatePairs(update any) Pairs {
	if update == nil {
		return nil
	}
	if pairs, ok := PairsOf(update); ok {
		return pairs
	}
	list, _ := update.([]any)
	pairs := make(Pairs, 0, len(list))
	for _, e := range list {
		if pair, _ := e.([]any); len(pair) == 2 {
			if key, ok := pair[0].(string); ok {
				pairs = append(pairs, Pair{key, pair[1]})
			}
		}
	}
	if len(list) == 0 || len(pairs) < len(list) {
		return Pairs{{RootKey, update}}
	}
	return pairs
}
