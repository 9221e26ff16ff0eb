package channel

import (
	"slices"
)

// Accumulation says whether a Topic keeps what earlier supersteps sent.
type Accumulation bool

// The two kinds of Topic.
const (
	PerStep    Accumulation = false // emptied at every superstep
	Accumulate Accumulation = true  // keeps everything
)

type topic[T any] struct {
	base
	values     []T
	accumulate Accumulation
}

// Topic is a list of everything sent to it. A write that is itself a list is
// flattened by one level. The value is a fresh []T; an empty topic has none.
func Topic[T any](acc Accumulation) Channel { return &topic[T]{accumulate: acc} }

// Named implements Channel.
func (c *topic[T]) Named(key string) Channel {
	return &topic[T]{base: base{key}, accumulate: c.accumulate}
}

// Copy implements Channel.
func (c *topic[T]) Copy() Channel {
	d := *c
	d.values = slices.Clip(c.values)
	return &d
}

// Checkpoint stores the list even when it is empty, as LangGraph does.
func (c *topic[T]) Checkpoint() (any, bool) {
	if c.values == nil {
		return []T{}, true
	}
	return c.values, true
}

// Get implements Channel.
func (c *topic[T]) Get() (any, bool) {
	if len(c.values) == 0 {
		return nil, false
	}
	return slices.Clone(c.values), true
}

// Each yields the values without copying the list. It must not be used after the next Update.
func (c *topic[T]) Each(yield func(int, any) bool) {
	for i, v := range c.values {
		if !yield(i, v) {
			return
		}
	}
}

// Available implements Channel.
func (c *topic[T]) Available() bool { return len(c.values) > 0 }

// Restore implements Channel.
func (c *topic[T]) Restore(v Stored) (Channel, error) {
	d := &topic[T]{base: c.base, accumulate: c.accumulate}
	if v == nil {
		return d, nil
	}
	x, err := v.Any()
	if err != nil {
		return nil, restoreError(c.key, err)
	}
	list, ok := x.([]any)
	if !ok {
		return nil, restoreError(c.key, &TypeError{Want: listType, Got: x})
	}
	if len(list) == 2 { // old checkpoints hold the pair (seen, values)
		if _, isSet := asNames(list[0]); isSet {
			if inner, ok := list[1].([]any); ok {
				list = inner
			}
		}
	}
	if d.values, err = appendFlat[T](nil, list); err != nil {
		return nil, restoreError(c.key, err)
	}
	return d, nil
}

// Update implements Channel.
func (c *topic[T]) Update(values []any) (bool, error) {
	kept := c.values
	changed := false
	if c.accumulate == PerStep {
		changed, kept = len(kept) > 0, nil
	}
	next, err := appendFlat(kept, values)
	if err != nil {
		return false, c.typeError(err)
	}
	changed = changed || len(next) > len(kept)
	c.values = next
	return changed, nil
}

// appendFlat appends values to dst. It appends the elements of lists.
func appendFlat[T any](dst []T, values []any) ([]T, error) {
	for _, v := range values {
		if list, ok := v.([]T); ok {
			dst = append(dst, list...)
			continue
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, e := range list {
			x, err := Convert[T](e)
			if err != nil {
				return nil, err
			}
			dst = append(dst, x)
		}
	}
	return dst, nil
}

// Equal implements Channel.
func (c *topic[T]) Equal(other Channel) bool {
	o, ok := other.(*topic[T])
	return ok && o.accumulate == c.accumulate
}
