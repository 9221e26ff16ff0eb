package channel

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver/serde"
)

var (
	pairType = reflect.TypeFor[[2]any]()
	boolType = reflect.TypeFor[bool]()
	listType = reflect.TypeFor[[]any]()
	setType  = reflect.TypeFor[serde.Set]()
)

type barrier struct {
	base
	names    map[string]bool
	seen     map[string]bool
	deferred bool // waits for Finish as well
	finished bool
}

// NamedBarrier becomes available when all of names were written. The node that it triggers
// empties it. It joins several edges into one. Writing another name is an UpdateError.
func NamedBarrier(names ...string) Channel { return newBarrier("", names, false) }

// NamedBarrierAfterFinish is a NamedBarrier that also waits until no other node is left to
// run. It is the join of a deferred node.
func NamedBarrierAfterFinish(names ...string) Channel { return newBarrier("", names, true) }

func newBarrier(key string, names []string, deferred bool) *barrier {
	b := &barrier{base: base{key}, names: map[string]bool{}, seen: map[string]bool{}, deferred: deferred}
	for _, n := range names {
		b.names[n] = true
	}
	return b
}

func (c *barrier) empty(key string) *barrier {
	return &barrier{base: base{key}, names: c.names, seen: map[string]bool{}, deferred: c.deferred}
}

func (c *barrier) complete() bool { return len(c.seen) == len(c.names) }

// Named implements Channel.
func (c *barrier) Named(key string) Channel { return c.empty(key) }

// Copy implements Channel.
func (c *barrier) Copy() Channel {
	d := *c
	d.seen = maps.Clone(c.seen)
	return &d
}

// Checkpoint implements Channel.
func (c *barrier) Checkpoint() (any, bool) {
	set := serde.Set{}
	for _, name := range slices.Sorted(maps.Keys(c.seen)) {
		set = append(set, name)
	}
	if c.deferred {
		return []any{set, c.finished}, true
	}
	return set, true
}

// Restore implements Channel.
func (c *barrier) Restore(v Stored) (Channel, error) {
	d := c.empty(c.key)
	if v == nil {
		return d, nil
	}
	var x any
	var err error
	if c.deferred {
		x, d.finished, err = restorePair(c.key, v)
	} else if x, err = v.Any(); err != nil {
		err = restoreError(c.key, err)
	}
	if err != nil {
		return nil, err
	}
	names, ok := asNames(x)
	if !ok {
		return nil, restoreError(c.key, &TypeError{Want: setType, Got: x})
	}
	for _, n := range names {
		d.seen[n] = true
	}
	return d, nil
}

// asNames reads a decoded set of strings.
func asNames(x any) ([]string, bool) {
	var list []any
	switch s := x.(type) {
	case serde.Set:
		list = s
	case serde.FrozenSet:
		list = s
	default:
		return nil, false
	}
	names := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, false
		}
		names[i] = s
	}
	return names, true
}

// Get implements Channel.
func (c *barrier) Get() (any, bool) { return nil, c.Available() }

// Available implements Channel.
func (c *barrier) Available() bool { return c.complete() && (!c.deferred || c.finished) }

// Update implements Channel.
func (c *barrier) Update(values []any) (bool, error) {
	for _, v := range values {
		if name, ok := v.(string); !ok || !c.names[name] {
			return false, &UpdateError{Channel: c.key, Reason: fmt.Sprintf("Value %v not in {%s}", v,
				strings.Join(slices.Sorted(maps.Keys(c.names)), ", "))}
		}
	}
	changed := false
	for _, v := range values {
		name := v.(string)
		changed = changed || !c.seen[name]
		c.seen[name] = true
	}
	return changed, nil
}

// Consume implements Channel.
func (c *barrier) Consume() bool {
	if !c.Available() {
		return false
	}
	c.seen, c.finished = map[string]bool{}, false
	return true
}

// Finish implements Channel.
func (c *barrier) Finish() bool {
	if !c.deferred || c.finished || !c.complete() {
		return false
	}
	c.finished = true
	return true
}

// Equal implements Channel.
func (c *barrier) Equal(other Channel) bool {
	o, ok := other.(*barrier)
	return ok && o.deferred == c.deferred && maps.Equal(o.names, c.names)
}
