package channel

import "reflect"

// Typed is implemented by channels that know the type of their value. All channels of this
// package do, except barriers. A graph over a struct compares it with the type of the field.
type Typed interface {
	Channel
	// ValueType is the type of what Get returns.
	ValueType() reflect.Type
}

// ValueType implements Typed.
func (c *lastValue[T]) ValueType() reflect.Type {
	if c.typ != nil {
		return c.typ
	}
	return reflect.TypeFor[T]()
}

// ValueType implements Typed.
func (c *exact) ValueType() reflect.Type { return c.typ }

// ValueType implements Typed.
func (c *exactFold) ValueType() reflect.Type { return c.typ }

// ValueType implements Typed.
func (c *fold[T, U]) ValueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType implements Typed.
func (c *delta[T, W]) ValueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType implements Typed.
func (c *topic[T]) ValueType() reflect.Type { return reflect.TypeFor[[]T]() }

// ValueType implements Typed.
func (c *anyValue[T]) ValueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType implements Typed.
func (c *lastAfterFinish[T]) ValueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType implements Typed.
func (c *ephemeral[T]) ValueType() reflect.Type { return reflect.TypeFor[T]() }

// ValueType implements Typed.
func (c *untracked[T]) ValueType() reflect.Type { return reflect.TypeFor[T]() }
