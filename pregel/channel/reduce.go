package channel

import (
	"cmp"
	"maps"
	"reflect"

	"github.com/stele-go/stele/saver/serde"
)

const oneOverwrite = "Can receive only one Overwrite value per super-step."

// fold is LangGraph's BinaryOperatorAggregate.
type fold[T, U any] struct {
	base
	slot[T]
	initial func() (T, bool)
	reduce  func(T, U) (T, error)
	accepts func(U) error // why the reducer cannot read a write; nil: it can read all
	reducer string        // its name; "": it has none
}

// Reduce folds every write into the value with f, in the order of the tasks. It starts from
// the zero value of T; for a slice or map that is an empty one, not nil. If T is an interface
// or a pointer, the first write becomes the value. A serde.Overwrite replaces the value, and
// later writes of its superstep are ignored. Two of them in a superstep are an UpdateError.
func Reduce[T any](f func(value, write T) T) Channel {
	return Fold(nil, func(v, w T) (T, error) { return f(v, w), nil })
}

// ReduceFrom is Reduce that starts from initial.
func ReduceFrom[T any](initial func() T, f func(value, write T) T) Channel {
	return Fold(initial, func(v, w T) (T, error) { return f(v, w), nil })
}

// Fold is Reduce for writes of another type than the value, with a reducer that
// may refuse a write. A nil initial is the zero value of T as in Reduce.
func Fold[T, U any](initial func() T, f func(value T, write U) (T, error)) Channel {
	start := zeroOf[T]
	if initial != nil {
		start = func() (T, bool) { return initial(), true }
	}
	c := &fold[T, U]{initial: start, reduce: f}
	c.value, c.set = start()
	return c
}

// FoldAccepted is Fold from the zero value of T, for a reducer that cannot read every write.
// accepts says why it cannot read one, so that the write is refused before anything is stored.
func FoldAccepted[T, U any](f func(value T, write U) (T, error), accepts func(write U) error) Channel {
	c := Fold(nil, f).(*fold[T, U])
	c.accepts = accepts
	return c
}

// zeroOf is the empty value of T; ok is false if T has none.
func zeroOf[T any]() (v T, ok bool) {
	t := reflect.TypeFor[T]()
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return v, false
	case reflect.Slice:
		return reflect.MakeSlice(t, 0, 0).Interface().(T), true
	case reflect.Map:
		return reflect.MakeMap(t).Interface().(T), true
	}
	return v, true
}

func (c *fold[T, U]) fresh(key string) *fold[T, U] {
	d := &fold[T, U]{base: base{key}, initial: c.initial, reduce: c.reduce, accepts: c.accepts, reducer: c.reducer}
	d.value, d.set = c.initial()
	return d
}

// Named implements Channel.
func (c *fold[T, U]) Named(key string) Channel { return c.fresh(key) }

// Get hides spare capacity. A node that appends to its input must not write to memory to
// which the channel, or another node, also appends.
func (c *fold[T, U]) Get() (any, bool) { return c.getClipped() }

// Copy implements Channel.
func (c *fold[T, U]) Copy() Channel {
	d := *c
	d.value = clip(c.value)
	return &d
}

// Restore also reads what the channel stored while it was a delta channel.
func (c *fold[T, U]) Restore(v Stored) (Channel, error) {
	d := c.fresh(c.key)
	if v == nil {
		return d, nil
	}
	return d, d.restoreSnapshot(c.key, v)
}

// IsFold marks the channel for the engine. If a checkpoint was written while the channel was
// a delta channel, the engine rebuilds it from its history.
func (c *fold[T, U]) IsFold() {}

// isSteady marks the channel for IsSteady.
func (c *fold[T, U]) isSteady() {}

// Update implements Channel.
func (c *fold[T, U]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	next := c.slot
	overwritten := false
	for _, v := range values {
		if ow, ok := serde.AsOverwrite(v); ok {
			if overwritten {
				return false, &UpdateError{Channel: c.key, Reason: oneOverwrite, Code: CodeConcurrentUpdate}
			}
			x, err := Convert[T](ow.Value)
			if err != nil {
				return false, c.typeError(err)
			}
			next.put(clip(x))
			overwritten = true
			continue
		}
		if overwritten {
			continue
		}
		if err := c.step(&next, v); err != nil {
			return false, err
		}
	}
	c.slot = next
	return true, nil
}

func (c *fold[T, U]) step(s *slot[T], v any) error {
	if !s.set {
		x, err := Convert[T](v)
		if err != nil {
			return c.typeError(err)
		}
		s.put(clip(x)) // the writer may append to its slice
		return nil
	}
	w, err := Convert[U](v)
	if err != nil {
		return c.typeError(err)
	}
	x, err := c.reduce(s.value, w)
	if err != nil {
		return &UpdateError{Channel: c.key, Reason: "the reducer refused a write", Err: err}
	}
	s.put(x)
	return nil
}

// check is Update without the reducer, which may change the value in place.
func (c *fold[T, U]) check(values []any) error {
	d := *c
	d.reduce = func(v T, w U) (T, error) {
		if c.accepts == nil {
			return v, nil
		}
		return v, c.accepts(w)
	}
	_, err := d.Update(values)
	return err
}

// Equal takes two reducers of one type as equal, because functions cannot be compared.
// LangGraph does the same with two lambdas.
func (c *fold[T, U]) Equal(other Channel) bool { _, ok := other.(*fold[T, U]); return ok }

// Append is the reducer that joins lists.
func Append[T any](value, write []T) []T { return append(value, write...) }

// Add is the reducer that sums numbers or joins strings.
func Add[T cmp.Ordered](value, write T) T { return value + write }

// MergeMaps is the reducer that returns a new map with the entries of value and write. Those
// of write win.
func MergeMaps[K comparable, V any](value, write map[K]V) map[K]V {
	out := make(map[K]V, len(value)+len(write))
	maps.Copy(out, value)
	maps.Copy(out, write)
	return out
}

// AsOverwrite recognises a write that replaces the value of a reducing channel.
func AsOverwrite(v any) (serde.Overwrite, bool) { return serde.AsOverwrite(v) }
