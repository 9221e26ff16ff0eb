package channel

import "reflect"

// slot is an optional value. A channel that embeds it has its Get, Available and Checkpoint.
type slot[T any] struct {
	value T
	set   bool
}

// Get implements Channel.
func (s *slot[T]) Get() (any, bool) {
	if !s.set {
		return nil, false
	}
	return s.value, true
}

// Available implements Channel.
func (s *slot[T]) Available() bool { return s.set }

// Checkpoint implements Channel.
func (s *slot[T]) Checkpoint() (any, bool) { return s.Get() }

// getClipped is get without spare capacity.
func (s *slot[T]) getClipped() (any, bool) {
	if !s.set {
		return nil, false
	}
	return clip(s.value), true
}

func (s *slot[T]) put(v T) { s.value, s.set = v, true }

func (s *slot[T]) clear() { *s = slot[T]{} }

func (s *slot[T]) restore(key string, v Stored) error {
	if v == nil {
		s.clear()
		return nil
	}
	x, err := decode[T](v)
	if err != nil {
		return restoreError(key, err)
	}
	s.put(x)
	return nil
}

const oneValue = "Can receive only one value per step. Give it a reducer, such as the tag `state:\"append\"`, to take several."

type lastValue[T any] struct {
	base
	slot[T]
	typ reflect.Type // values must be convertible to it; nil: T is enough
}

// LastValue keeps the value written last. A superstep may write it once; two
// writes are an UpdateError. Writing an equal value is a change.
func LastValue[T any]() Channel { return &lastValue[T]{} }

// LastValueOf is LastValue for a type that is not known at compile time. It keeps a value
// unchanged, and refuses one that ConvertInto cannot convert to t, except nil.
func LastValueOf(t reflect.Type) Channel { return &lastValue[any]{typ: t} }

// Named implements Channel.
func (c *lastValue[T]) Named(key string) Channel { return &lastValue[T]{base: base{key}, typ: c.typ} }

// Copy implements Channel.
func (c *lastValue[T]) Copy() Channel { d := *c; return &d }

// Restore implements Channel.
func (c *lastValue[T]) Restore(v Stored) (Channel, error) {
	d := &lastValue[T]{base: c.base, typ: c.typ}
	return d, d.restore(c.key, v)
}

// Update implements Channel.
func (c *lastValue[T]) Update(values []any) (bool, error) {
	switch len(values) {
	case 0:
		return false, nil
	case 1:
	default:
		return false, &UpdateError{Channel: c.key, Reason: oneValue, Code: CodeConcurrentUpdate}
	}
	if v := values[0]; v != nil && c.typ != nil && !reflect.TypeOf(v).AssignableTo(c.typ) {
		if err := ConvertInto(reflect.New(c.typ).Interface(), v); err != nil {
			return false, c.typeError(err)
		}
	}
	return putLast(&c.base, &c.slot, values)
}

// Equal implements Channel.
func (c *lastValue[T]) Equal(other Channel) bool { _, ok := other.(*lastValue[T]); return ok }

// isSteady marks the channel for IsSteady.
func (c *lastValue[T]) isSteady() {}

// isLastValue lets a schema recognise a plain declaration of any type.
func (c *lastValue[T]) isLastValue() {}

// IsLastValue reports whether c is a LastValue of any type.
func IsLastValue(c Channel) bool { _, ok := c.(interface{ isLastValue() }); return ok }

type lastAfterFinish[T any] struct {
	base
	slot[T]
	finished bool
}

// LastValueAfterFinish keeps the value written last. It becomes available when no other node
// is left to run, and the node that it triggers clears it. It is the trigger of deferred
// nodes.
func LastValueAfterFinish[T any]() Channel { return &lastAfterFinish[T]{} }

// Named implements Channel.
func (c *lastAfterFinish[T]) Named(key string) Channel { return &lastAfterFinish[T]{base: base{key}} }

// Copy implements Channel.
func (c *lastAfterFinish[T]) Copy() Channel { d := *c; return &d }

// Available implements Channel.
func (c *lastAfterFinish[T]) Available() bool { return c.set && c.finished }

// Checkpoint implements Channel.
func (c *lastAfterFinish[T]) Checkpoint() (any, bool) {
	if !c.set {
		return nil, false
	}
	return []any{c.value, c.finished}, true
}

// Get implements Channel.
func (c *lastAfterFinish[T]) Get() (any, bool) {
	if !c.finished {
		return nil, false
	}
	return c.slot.Get()
}

// Restore implements Channel.
func (c *lastAfterFinish[T]) Restore(v Stored) (Channel, error) {
	d := &lastAfterFinish[T]{base: c.base}
	if v == nil {
		return d, nil
	}
	inner, finished, err := restorePair(c.key, v)
	if err != nil {
		return nil, err
	}
	x, err := Convert[T](inner)
	if err != nil {
		return nil, restoreError(c.key, err)
	}
	d.put(x)
	d.finished = finished
	return d, nil
}

// restorePair reads the stored form (value, finished).
func restorePair(key string, v Stored) (any, bool, error) {
	x, err := v.Any()
	if err != nil {
		return nil, false, restoreError(key, err)
	}
	pair, ok := x.([]any)
	if !ok || len(pair) != 2 {
		return nil, false, restoreError(key, &TypeError{Want: pairType, Got: x})
	}
	finished, ok := pair[1].(bool)
	if !ok {
		return nil, false, restoreError(key, &TypeError{Want: boolType, Got: pair[1]})
	}
	return pair[0], finished, nil
}

// Update implements Channel.
func (c *lastAfterFinish[T]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	changed, err := putLast(&c.base, &c.slot, values)
	c.finished = c.finished && !changed
	return changed, err
}

// Consume implements Channel.
func (c *lastAfterFinish[T]) Consume() bool {
	if !c.finished {
		return false
	}
	c.clear()
	c.finished = false
	return true
}

// Finish implements Channel.
func (c *lastAfterFinish[T]) Finish() bool {
	if c.finished || !c.set {
		return false
	}
	c.finished = true
	return true
}

// Equal implements Channel.
func (c *lastAfterFinish[T]) Equal(other Channel) bool {
	_, ok := other.(*lastAfterFinish[T])
	return ok
}

type anyValue[T any] struct {
	base
	slot[T]
}

// AnyValue keeps one of the values written in the last superstep, assuming that
// they are equal. A superstep without a write clears it.
func AnyValue[T any]() Channel { return &anyValue[T]{} }

// Named implements Channel.
func (c *anyValue[T]) Named(key string) Channel { return &anyValue[T]{base: base{key}} }

// Copy implements Channel.
func (c *anyValue[T]) Copy() Channel { d := *c; return &d }

// Equal implements Channel.
func (c *anyValue[T]) Equal(other Channel) bool { _, ok := other.(*anyValue[T]); return ok }

// Restore implements Channel.
func (c *anyValue[T]) Restore(v Stored) (Channel, error) {
	d := &anyValue[T]{base: c.base}
	return d, d.restore(c.key, v)
}

// Update implements Channel.
func (c *anyValue[T]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		changed := c.set
		c.clear()
		return changed, nil
	}
	return putLast(&c.base, &c.slot, values)
}

// putLast puts the last of values, of which there is at least one.
func putLast[T any](b *base, s *slot[T], values []any) (bool, error) {
	v, err := Convert[T](values[len(values)-1])
	if err != nil {
		return false, b.typeError(err)
	}
	s.put(v)
	return true, nil
}
