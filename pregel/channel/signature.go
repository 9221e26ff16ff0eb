package channel

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver/serde"
)

// Signature describes a channel by what matters to the values that it stores: its kind, its
// reducer if that has a name (append, add, merge, messages), and the structure of its values
// as serde.Shape has it. A reducer that is given as a function has no name, because a function
// has none that the next build keeps. Equal channels have equal signatures, in every process.
// A channel of another package is described by the name of its type.
func Signature(c Channel) string {
	kind := strings.TrimLeft(reflect.TypeOf(c).String(), "*")
	kind, _, _ = strings.Cut(kind, "[") // without type arguments
	if s, ok := c.(interface{ kind() string }); ok {
		kind = s.kind()
	}
	if typed, ok := c.(Typed); ok {
		return kind + " " + serde.Shape(typed.ValueType())
	}
	return kind
}

// IsUnnamed reports whether the reducer of a channel has no name: a fingerprint does not change with it.
func IsUnnamed(c Channel) bool {
	r, ok := c.(interface{ reducerName() string })
	return ok && r.reducerName() == ""
}

func (c *fold[T, U]) reducerName() string  { return c.reducer }
func (c *delta[T, W]) reducerName() string { return c.reducer }

// These words are a part of fingerprints: a new one is a new version of each graph.

func (c *lastValue[T]) kind() string       { return "last" }
func (c *exact) kind() string              { return "last" }
func (c *anyValue[T]) kind() string        { return "any" }
func (c *lastAfterFinish[T]) kind() string { return "last after finish" }
func (c *untracked[T]) kind() string       { return "untracked" }
func (c *ephemeral[T]) kind() string       { return "ephemeral" }
func (c *fold[T, U]) kind() string         { return withReducer("reduce", c.reducer) }
func (c *delta[T, W]) kind() string        { return withReducer("delta", c.reducer) }

func (c *topic[T]) kind() string {
	if c.accumulate {
		return "topic, accumulates"
	}
	return "topic"
}

func (c *barrier) kind() string {
	kind := fmt.Sprintf("barrier %q", slices.Sorted(maps.Keys(c.names)))
	if c.deferred {
		kind += " after finish"
	}
	return kind
}

func withReducer(kind, reducer string) string {
	if reducer == "" {
		return kind
	}
	return kind + " " + reducer
}
