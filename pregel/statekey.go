package pregel

import (
	"reflect"

	"github.com/stele-go/stele/pregel/channel"
)

// StateKey is a key of a graph's state, for forms and schemas.
type StateKey struct {
	Name string
	// Type is that of the key's value; nil if the channel does not know it.
	Type reflect.Type
}

// StateKeys are the keys that snapshots and streams show, in the order of their declaration.
// A state without keys has the one key of its channel.
func (g *Graph) StateKeys() []StateKey { return g.mustBe().keys(g.stream) }

// InputKeys are the keys that a run's input may have.
func (g *Graph) InputKeys() []StateKey {
	if takes := g.mustBe().spec.InputKeys; len(takes.Names) > 0 {
		return g.keys(takes)
	}
	return g.StateKeys()
}

// OutputKeys are the keys of a run's result.
func (g *Graph) OutputKeys() []StateKey { return g.mustBe().keys(g.output) }

func (g *Graph) keys(sel Keys) []StateKey {
	out := make([]StateKey, len(sel.Names))
	for i, name := range sel.Names {
		out[i].Name = name
		if c, ok := g.spec.Channels[name].(channel.Typed); ok {
			out[i].Type = c.ValueType()
		}
	}
	return out
}
